# Faraday with its retry middleware, which repeats a POST only when told to, and an answer only when it is named.
require_relative "pay"
require "date" # Faraday 1.1 needs it before it can repeat an answer, and does not load it
require "faraday"

client = Faraday.new do |f|
  f.request :retry, max: ENV["SET"] ? 5 : 2, interval: ENV["SET"] ? 1 : 0.2, methods: [:post],
                    retry_statuses: ENV["SET"] ? [409, 429, 500, 502, 503, 504] : [],
                    exceptions: [Faraday::ConnectionFailed, Faraday::TimeoutError, Faraday::RetriableResponse]
  f.adapter :net_http
end
pay_all(Faraday::VERSION) do |url, headers, body|
  answer = client.post(url.to_s, body, headers)
  [answer.status, answer.body]
end
