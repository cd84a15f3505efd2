// Package statement compares the PSP's settlement statements with our payments and refunds, and owns what differs: the
// breaks. A statement lists the movements of money that succeeded on one account in one day, UTC, by the PSP's clock.
//
// It reads payments, refunds, tenants and the time at which a key was finished, and changes none of them: what is to
// become of a break is for whoever is told of it (Config.OnBreak). It has no memory of single lines. A run copies the
// statement into a temporary table and lets PostgreSQL compare the two as a whole, so what the process holds does not depend
// on the length of the file, nor on the number of breaks.
//
// Invariants:
//   - An account's day is one transaction. A statement that cannot be read to its trailer changes nothing.
//   - Running a day again is harmless: a break that is found again is the same row, with the time at which it was first
//     seen; one that is found no more is marked gone.
//   - Whoever is told of a break is told in the transaction that writes it, once until it is gone.
//   - Nothing is called missing at the PSP unless every statement that can have it was read whole.
//
// # Midnight
//
// Two clocks do not agree when a day ends, and a movement can be executed long after it was created: by a retry, or
// late. A movement of ours is dated by the PSP
//
//   - not before its creation, less Config.Skew, the largest difference between the clocks;
//   - not after its key was finished, plus Skew: no evidence of a movement precedes it. Where the key is no longer
//     there, not after its creation plus Config.Horizon plus Skew: the PSP has forgotten the key by then.
//
// So, with days that begin and end Skew early, each movement belongs to the run of exactly one day, that of its creation.
// The run looks for it in that day's statement, and only if it is absent in those of the neighbours that can have it: the day
// before, when it was created within Skew of the day's beginning, and the days after, when it was finished later than
// Skew before the day's end. If one of these is not published yet, the movement is no break but pending, and the
// runs of the days that follow judge the day anew until none is. What any of the statements has is no break, what none has
// is one: nothing near midnight is reported too early, or lost between two days.
//
// A day that is not over can be reconciled as well, as far as its statement is published. It counts up to Skew before
// the run began.
package statement
