// Package meter tells what a slice of a benchmark run has cost: CPU seconds of processes and of a whole PostgreSQL
// server, memory, what the database counted, and what machine that was on.
//
// It owns the reading of /proc and of PostgreSQL's statistics, and the judgement whether a slice was disturbed: whether
// somebody who does not belong to the run took more of the machine than MaxOthers. It refuses to know what is measured,
// how many rounds there are, and how results are shown; package report has those.
//
// Invariants:
//
//   - A cost is the difference of two readings. Nothing is sampled, so nothing between them is missed, and processes
//     that ended in between count (their parent carries their time).
//   - The meter's own SQL neither commits nor writes: it does not appear in the commits that it reads.
//   - A number that the system does not give is an error, never a zero, but for the description of the machine, where
//     what is not known is left out.
//
// CPU and memory are read from /proc, so on Linux only: elsewhere New says so.
package meter
