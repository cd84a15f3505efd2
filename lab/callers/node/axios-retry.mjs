// axios-retry on its defaults: three retries at once, of lost answers only.
import axios from "axios";
import axiosRetry from "axios-retry";

const client = axios.create();
axiosRetry(client, !process.env.SET ? { retries: 3 } : {
  retries: 5,
  retryDelay: axiosRetry.exponentialDelay,
  retryCondition: (e) => !e.response || [409, 429].includes(e.response.status) || e.response.status >= 500,
});

export async function pay(url, headers, body) {
  const answer = await client.post(url, body, { headers });
  return [answer.status, answer.data];
}
