<?php

declare(strict_types=1);

const TOLERANCE_SECONDS = 300;
// A notification has about 1 kB.
const BODY_BYTES_MAX = 1 << 20;

// What fails on the way must never be answered with 2xx.
http_response_code(500);

function is_authentic(string $secret, string $timestamp, string $signature, string $body): bool
{
    $expected = 'sha256=' . hash_hmac('sha256', $timestamp . '.' . $body, $secret);
    return hash_equals($expected, $signature)
        && abs(time() - (int) $timestamp) <= TOLERANCE_SECONDS;
}

$secret = getenv('WEBHOOK_SECRET') ?: throw new RuntimeException('WEBHOOK_SECRET is not set');
// The raw bytes: the signature is over these, not over parsed JSON. What is longer is cut, and not authentic.
$body = (string) file_get_contents('php://input', length: BODY_BYTES_MAX);
$timestamp = $_SERVER['HTTP_SERVICE_TIMESTAMP'] ?? '';
$signature = $_SERVER['HTTP_SERVICE_SIGNATURE'] ?? '';
if (!is_authentic($secret, $timestamp, $signature, $body)) {
    http_response_code(400);
    exit;
}
$notification = json_decode($body, true, 512, JSON_THROW_ON_ERROR);
// Here, store $notification under its service-delivery-id. Answer only then.
http_response_code(204);
