# Pays what comes on standard input: one line for each payment, and one for what came of it. The block pays, and returns
# a status and a body.
require "json"
require "uri"

$stdout.sync = true

def pay_all(version)
  puts({ version: version }.to_json)
  while (line = $stdin.gets)
    token, key, body = line.chomp.split("\t", 3)
    headers = { "Authorization" => "Bearer #{token}", "Content-Type" => "application/json", "Idempotency-Key" => key }
    begin
      status, text = yield URI(ENV["URL"]), headers, body
      puts({ key: key, status: status, body: text }.to_json)
    rescue StandardError => e
      puts({ key: key, error: "#{e.class} #{e.message}" }.to_json)
    end
  end
end
