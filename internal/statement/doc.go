// Package statement compares the PSP's settlement statements with our payments and refunds. It owns the differences:
// the breaks. A statement lists the movements of money that succeeded on one account in one day, UTC, by the PSP's
// clock.
//
// It reads payments, refunds, tenants and the time at which a key was finished, and changes none of them. A break is
// evidence, and package payments judges it. A run copies the statement into a temporary table, and PostgreSQL compares
// the two as a whole. So the memory of the process does not depend on the length of the file, nor on the number of
// breaks. The lines of the day are kept (booked_lines), with the sums of both books (statement_sums), and with what
// payouts have paid (paid_lines). A line of a type that we do not know is in the sums by its type's name.
//
// Invariants:
//   - An account's day is one transaction. A statement that cannot be read to its trailer changes nothing.
//   - A day may be run again. A break that is found again is the same row, and keeps the time at which it was first
//     seen. A break that is not found again is marked gone.
//   - A break is judged in the transaction that writes it. It is judged once, until it is gone, or until the status of
//     our movement has changed.
//   - A movement is called missing at the PSP only if it is final and every statement that can have it was read
//     completely. A statement that has it after all ends the break, whatever day it is of, and that is judged, too.
//   - What a run could not judge is pending, and Due lists its day when it can be judged. Nothing is forgotten.
//
// # Midnight, and later days
//
// Two clocks do not agree when a day ends. And a movement can be executed long after it was created: by a retry, when a
// customer has authenticated, when a bank has decided. These limits hold for the time that the PSP gives a movement of
// ours:
//
//   - It is not before the movement's creation minus Config.Skew, the largest difference between the clocks.
//   - It is not after the time at which the key was finished plus Skew, because no evidence of a movement comes before
//     the movement. If the key is gone, it is not after the creation plus Config.Horizon plus Skew, because the PSP has
//     forgotten the key by then. An open movement has no limit yet.
//
// A day begins and ends Skew early. So each movement belongs to the run of exactly one day, the day of its creation.
// The run looks for the movement in that day's statement. If it is absent, the run looks in the neighbouring statements
// that can have it: in the day before, if it was created within Skew of the day's beginning, and in the days after, if
// it was finished later than Skew before the day's end. If one of these statements is not published yet, or if the
// movement is open, it is not a break but pending. The statement of each later day ends that if it has the movement.
// When the movement is final, and the last statement that can have it was judged, its day is judged again. A movement
// that is in any of the statements is no break. A movement that is in none of them is a break. So no movement is
// reported too early, or lost between two days.
//
// A PSP may publish no statement for a day without movements. So once a later day of the account was judged, a day
// without a statement is one without movements. Two runs of one account never run at the same time.
//
// A line is compared on the day of its statement. If its movement is open, the break is left to those who resolve the
// movement. The movement is pending, too, and the line is compared again when it is final.
//
// A day that is not over can be reconciled, too, as far as its statement is published. Movements count up to Skew
// before the beginning of the run.
package statement
