// got, which repeats a POST only when told to.
import got from "got";

const retry = !process.env.SET ? { limit: 2, methods: ["POST"] }
  : { limit: 5, methods: ["POST"], statusCodes: [409, 429, 500, 502, 503, 504] };

export async function pay(url, headers, body) {
  const answer = await got.post(url, { headers, body, retry });
  return [answer.statusCode, answer.body];
}
