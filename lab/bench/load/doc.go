// Package load sends HTTP requests at the API and says how they were answered: how many, how soon, with which statuses.
// It owns the requests of the benchmark and their schedule, and refuses to know what a good figure is: that is for the
// report.
//
// It shares the machine with what it measures, so that each microsecond of its own is taken from the server. So it does
// not use net/http: a request is a template of bytes in which ids are patched in place, an answer is read only as far
// as its end must be known, and after a client's first request nothing is allocated.
//
// # Invariants
//
//   - In the closed loop, a client sends its next request when the answer has come. In the open loop (a [Plan] with a
//     Rate), requests fall due on a fixed schedule, and latency counts from when one was due, not from when a
//     connection was free for it: a server that stalls cannot slow down the clock that it is judged by ("coordinated
//     omission": Gil Tene, "How NOT to Measure Latency"). What was due and not sent by the end is counted as unsent.
//   - A request belongs to the measured time if it was begun (or fell due) in it, and is counted although its answer
//     comes later.
//   - A status that was not expected, and an answer that never came, are counted also in the warm-up, and the first of
//     them is quoted: a run that measures errors is no run.
//   - Memory is fixed: latencies go into a histogram, which is off by less than 1 %.
package load
