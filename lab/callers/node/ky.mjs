// ky, which repeats a POST only when told to.
import ky from "ky";

const options = !process.env.SET ? { retry: { limit: 2, methods: ["post"] } } : {
  timeout: 30_000, // for all tries together
  retry: {
    limit: 5, methods: ["post"], statusCodes: [409, 429, 500, 502, 503, 504], afterStatusCodes: [409, 429, 503],
  },
};

export async function pay(url, headers, body) {
  const answer = await ky.post(url, { headers, body, ...options });
  return [answer.status, await answer.text()];
}
