# gem install webrick
require "json"
require "openssl"
require "webrick"

SECRET = ENV.fetch("WEBHOOK_SECRET")
TOLERANCE_SECONDS = 300
# A notification has about 1 kB.
BODY_BYTES_MAX = 1 << 20

def authentic?(timestamp, signature, body)
  message = timestamp.b + "." + body
  expected = "sha256=" + OpenSSL::HMAC.hexdigest("SHA256", SECRET, message)
  OpenSSL.secure_compare(expected, signature) &&
    (Time.now.to_i - timestamp.to_i).abs <= TOLERANCE_SECONDS
end

# The raw bytes: the signature is over these, not over parsed JSON.
def body_of(request)
  body = String.new
  request.body do |chunk|
    body << chunk
    raise WEBrick::HTTPStatus::RequestEntityTooLarge if body.bytesize > BODY_BYTES_MAX
  end
  body
end

server = WEBrick::HTTPServer.new(BindAddress: "127.0.0.1", Port: ENV.fetch("PORT", "8000").to_i)
server.mount_proc "/" do |request, response|
  body = body_of(request)
  timestamp = request["service-timestamp"].to_s
  signature = request["service-signature"].to_s
  raise WEBrick::HTTPStatus::BadRequest unless authentic?(timestamp, signature, body)

  notification = JSON.parse(body)
  # Here, store notification under its service-delivery-id. Answer only then.
  response.status = 204
end
trap("INT") { server.shutdown }
server.start
