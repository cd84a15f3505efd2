// Package invariants holds a run of the whole system against I1 to I10 of docs/correctness.md, from outside: the
// database as it is stored, the PSP's own ledger and the calls that it has counted, and what the clients have heard
// (package history). It never asks the code under test what is right, except for the list of legal edges and the
// spelling of ids.
//
//	I1  a key and its generation name one payment or refund; at most one successful charge for each key and each
//	    payment, the same of refunds; refunds together never exceed their charge
//	I2  nothing is under way any more: what Quiet waits for; and no key goes round between unknown and
//	    failed_retryable without end
//	I3  what a client was told is what is stored, member by member and header by header, which is what the payment
//	    or refund says, and what a fresh replay, a GET, each list and the view of its key say; a key is kept for its
//	    retention, and its clients know until when; each problem is that of the catalogue; the histories have an
//	    order (history.Check)
//	I4  what was asked for is what there is, all of it; our payments and refunds and the PSP's ledger say the same,
//	    both ways, and a settlement statement tells exactly the breaks between the two; a payment's totals are those
//	    of its refunds; what is left of a payment can be refunded
//	I5  another tenant's payment or key looks like one that does not exist, is in no list, and cannot be refunded;
//	    an API key may do what its scopes say, and nothing once it has ended (Revoked: nor once it is revoked)
//	I6  the PSP was sent no more requests for a key than the key has had attempts, but for those that were given
//	    back as never sent; and money has not moved while each request with the key was told that it has charged
//	    nothing
//	I7  who hears 422 (history.Check), and of requests that differ only one gets the answer when they are sent again
//	I8  each timeline is a chain of legal edges, from the reservation to the row as it stands; a key and what it
//	    stands for agree; who completed a key without a line had the PSP's answer; and who gave a key back had a
//	    proof; an operator is shown each dead letter, its audit trail and the summary as they are, and a dead letter
//	    says what is so of its payment, its key and the PSP's record; a key's row says what its open dead letters
//	    hold
//	I9  whatever the PSP has, or was sent, has its key and its payment or refund here; when it was sent, it had them
//	    already, and they are what was sent (Reservations)
//	I10 what others have refunded of our payments at the PSP is kept at these payments, each refund and their sum, and
//	    has a dead letter about the payment; and no refund of ours was begun beyond what was known to be left
//
// A difference between the ledger and us is excused by a dead letter, open or resolved, but only while the payment or
// refund has not come to its end, only by a dead letter of a kind that such a difference is given to, and about the
// very payment or refund, or the very record of the PSP's. Who has told a client the end of it had the PSP's word, and
// the mock PSP never takes one back: then no dead letter excuses anything, but for a wrong amount that the PSP has
// acted out and an operator has called executed. Nothing excuses a second charge.
//
// What the PSP does of its own accord (see Errs) is excused by two things together, in I1, I4 and I9: the fault of the
// very entry, and a dead letter that holds or names the very record. Without the dead letter it is a breach, whatever
// other dead letters there are.
//
// Everything is read once, in one snapshot, and compared in memory: a run has thousands of keys, not millions. What is
// being written meanwhile would look like a breach, so Quiet comes first. Keys that end during a run are judged if the
// database has kept what ended (Archive), and if nothing expires any more by then: a replay would begin the next life
// of its key.
package invariants
