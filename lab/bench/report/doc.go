// Package report holds the results of a benchmark run and shows them: as a table for the terminal, as JSON to keep, in
// the Go benchmark format (golang.org/design/14313) for benchstat, and the bars as Markdown for the documentation.
//
// It owns what is made of samples: medians, spreads, ratios, verdicts. It refuses to know how anything was measured,
// and it reads no clock and no machine: the same report gives the same bytes.
//
// Invariants:
//
//   - Samples are kept as they came, one per slice; summaries are always computed from them, so a report that was read
//     back can't disagree with itself.
//   - A spread is lowest to highest. With the handful of slices that a run has, a deviation would promise more than is
//     known.
//   - A ratio is taken round by round, of two measurements made next to each other, and only then summarized. A round
//     in which either was dropped has no ratio.
//   - What was not measured is "not run". It is neither met nor missed, and never zero.
package report
