require "fileutils"
require "json"
require "openssl"
require "tempfile"
require "webrick"

SECRET = ENV.fetch("WEBHOOK_SECRET")
# Each notification becomes a file here, named after its delivery.
FOLDER = "notifications"
TOLERANCE_SECONDS = 300
# A notification has about 1 kB.
BODY_BYTES_MAX = 64 * 1024

def authentic?(timestamp, signature, body)
  message = timestamp.b + "." + body
  expected = "sha256=" + OpenSSL::HMAC.hexdigest("SHA256", SECRET, message)
  OpenSSL.secure_compare(expected, signature) &&
    (Time.now.to_i - timestamp.to_i).abs <= TOLERANCE_SECONDS
end

# The raw bytes: the signature is over these, not over parsed JSON.
def body_of(request)
  too_long = WEBrick::HTTPStatus::RequestEntityTooLarge
  raise too_long if request["content-length"].to_i > BODY_BYTES_MAX

  body = String.new
  request.body do |chunk|
    body << chunk
    raise too_long if body.bytesize > BODY_BYTES_MAX
  end
  body
end

# Stores a notification as a whole or not at all. False if it was stored before.
def store(delivery_id, body)
  Tempfile.create("unfinished-", FOLDER) do |file|
    file.binmode
    file.write(body)
    file.fsync
    File.link(file.path, "#{FOLDER}/#{delivery_id}.json")
  end
  true
rescue Errno::EEXIST
  false
end

def receive(request)
  body = body_of(request)
  timestamp = request["service-timestamp"].to_s
  signature = request["service-signature"].to_s
  return 400 unless authentic?(timestamp, signature, body)

  delivery_id = request["service-delivery-id"].to_s
  return 400 unless delivery_id.match?(/\A[0-9a-f-]{36}\z/)

  notification = JSON.parse(body)
  if store(delivery_id, body)
    # New, and safe on disk. Leave what takes long to another process.
    puts "settlement #{notification["settlement_id"]}"
  end
  204
end

$stdout.sync = true
FileUtils.mkdir_p(FOLDER)
server = WEBrick::HTTPServer.new(
  BindAddress: "127.0.0.1", Port: ENV.fetch("PORT", "8000").to_i, RequestTimeout: 10
)
server.mount_proc("/") { |request, response| response.status = receive(request) }
trap("INT") { server.shutdown }
puts "listening on port #{server.config[:Port]}"
server.start
