require "json"
require "openssl"

SECRET = ENV.fetch("WEBHOOK_SECRET")
TOLERANCE_SECONDS = 300

def authentic?(timestamp, signature, body)
  message = timestamp.b + "." + body.b
  expected = "sha256=" + OpenSSL::HMAC.hexdigest("SHA256", SECRET, message)
  OpenSSL.secure_compare(expected, signature) &&
    (Time.now.to_i - timestamp.to_i).abs <= TOLERANCE_SECONDS
end

# A Rack application: `run RECEIVER` in config.ru.
RECEIVER = lambda do |env|
  # The raw bytes: the signature is over these, not over parsed JSON.
  body = env["rack.input"].read
  timestamp = env.fetch("HTTP_SERVICE_TIMESTAMP", "")
  signature = env.fetch("HTTP_SERVICE_SIGNATURE", "")
  return [400, {}, []] unless authentic?(timestamp, signature, body)

  notification = JSON.parse(body)
  # Here, store notification under its service-delivery-id. Answer only then.
  [204, {}, []]
end
