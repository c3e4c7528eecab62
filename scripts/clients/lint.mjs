// Lints OpenAPI documents with all rules that Redocly recommends, each as an error: node lint.mjs FILE…

import openapi from "@redocly/openapi-core";

// These answer everybody who can reach the listener: there is nothing to refuse. A provider's hint always gets the
// same answer, so that nobody learns anything from it.
const PUBLIC = ["/healthz", "/readyz", "/metrics", "/operator/v1/providers/{name}/callback"];

function isExpected(problem) {
  const places = problem.location.map((place) => place.pointer ?? "");
  const isPublic = PUBLIC.some((path) =>
    places.some((pointer) => pointer.startsWith(`#/paths/${path.replaceAll("/", "~1")}/`)),
  );
  return problem.ruleId === "operation-4xx-response" && isPublic;
}

const config = await openapi.createConfig({ extends: ["recommended-strict"] });
for (const file of process.argv.slice(2)) {
  const found = (await openapi.lint({ ref: file, config })).filter((problem) => !isExpected(problem));
  if (found.length > 0) {
    openapi.formatProblems(found, { format: "stylish", totals: openapi.getTotals(found), version: "" });
    process.exitCode = 1;
  }
}
