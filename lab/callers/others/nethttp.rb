# net/http: it repeats no POST.
require_relative "pay"
require "net/http"

http = nil
pay_all(RUBY_VERSION) do |url, headers, body|
  http ||= Net::HTTP.new(url.host, url.port)
  http.start unless http.started?
  answer = http.post(url.path, body, headers)
  [answer.code.to_i, answer.body]
end
