# Faraday with its retry middleware, which repeats a POST only when told to, and an answer only when its status is named.
require_relative "pay"
require "faraday"

client = Faraday.new do |f|
  f.request :retry, max: 3, interval: 0.2, methods: [:post], retry_statuses: [409, 429, 500, 502, 503, 504],
                    exceptions: [Faraday::ConnectionFailed, Faraday::TimeoutError, Faraday::RetriableResponse]
  f.adapter :net_http
end
pay_all(Faraday::VERSION) do |url, headers, body|
  answer = client.post(url.to_s, body, headers)
  [answer.status, answer.body]
end
