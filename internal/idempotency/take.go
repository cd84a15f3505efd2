package idempotency

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"payonce/internal/postgres"
)

// maxTries is how often a reservation is sent, at most: again whenever somebody else has moved the key in between. If
// the first try does not decide, the second nearly always does.
const maxTries = 5

// Try is one transaction of Take. Its first call is that of Calls. The sender writes the row that the key stands for
// in the same transaction: it begins a row, brings a failed one back (resumes), or has none to write.
type Try struct {
	Reservation
	Begins  bool
	Resumes uuid.UUID // the id of the row; zero if none is brought back
	Loses   uuid.UUID // the id of the row whose key becomes unknown; zero if none does
	// Alone: the try must not share its transaction. Another's statement may have caused a failure of an earlier try.
	Alone bool

	doubt bool      // an acknowledgement was lost on the way
	seen  *snapshot // what the key must still be; nil if the key is to be reserved
}

// Take takes the key of a reservation, or returns why the key cannot be taken. It is Free only if taking a free key has
// failed for good: the PSP may have forgotten the key. send sends a Try as one transaction, and returns its decision.
func (k *Keys) Take(
	ctx context.Context, r Reservation, send func(context.Context, Try) (Decision, error),
) (Decision, error) {
	t := taking{keys: k, reservation: r, send: send}
	var refused *Free
	for range maxTries {
		decision, err := t.commit(ctx, Try{Begins: true})
		if err != nil {
			return nil, err
		}
		switch d := decision.(type) {
		case nil:
			// Somebody has committed after our snapshot; or the key is held; or our acknowledgement was lost and no row
			// was read: the commit has not happened, or not yet. It is sent again.
			if held, err := k.heldWithoutRow(ctx, r.Ref); err != nil || held != nil {
				return held, err
			}
		case InProgress:
			if !d.leaseOver {
				return d, nil
			}
			// Crash window 5: the lease is over, the key is not unknown yet.
			if err := t.expire(ctx, d.KeyRow); err != nil {
				return nil, err
			}
			// We, the sweeper or the owner have moved the key. The next read says where it is.
		case Free:
			if refused != nil && d.same(*refused) {
				return d, nil // Nobody has taken the key, but we cannot take it.
			}
			taken, err := t.commit(ctx, d.try())
			if err != nil {
				return nil, err
			}
			if won, ours := taken.(Execute); ours {
				return won, nil
			}
			if taken == nil {
				refused = &d
			}
			// We have not taken the key. The next read says where it is.
		case Execute, Replay, Mismatch, Unknown, Held:
			return d, nil
		}
	}
	return nil, &postgres.UnavailableError{Op: "take key", Err: fmt.Errorf("no decision after %d reads", maxTries)}
}

// Calls are the calls of tries, with those that write their rows. Only tries that are not Alone come together, and they
// all begin: so the first one says for all what is to be done, and with doubt it is the only one.
//
// Nothing may be executed without its reservation. A failover may lose a commit that was never acknowledged, even if
// its row can be read. If an acknowledgement of this reservation was lost (doubt), the statement may find our own row
// and write nothing. So the transaction then also waits until the row that it has read is durable.
func (k *Keys) Calls(tries []Try, out *[]Decision, rows ...postgres.Call) []postgres.Call {
	var key postgres.Call
	first := tries[0]
	switch {
	case first.seen == nil:
		key = k.reserve(tries, out)
	case first.seen.leaseOver:
		*out = []Decision{nil} // The next read says where the key is.
		key = k.expireLease(first.seen.KeyRow)
	default:
		*out = []Decision{nil}
		key = k.retake(first.Reservation, *first.seen, &(*out)[0])
	}
	calls := append([]postgres.Call{key}, rows...)
	if first.doubt {
		calls = append(calls, postgres.Durable)
	}
	return calls
}

// taking is a reservation on its way to a decision.
type taking struct {
	keys        *Keys
	reservation Reservation
	send        func(context.Context, Try) (Decision, error)
	again       bool // a try was sent before
	doubt       bool // an acknowledgement was lost on the way
}

// commit sends one try. If its acknowledgement is lost, the key is read: a row with our lease is our commit. Without
// such a row, the commit has not happened, or not yet. The same reservation may then be sent again. Should the first
// commit arrive after all, the second one finds it, and we are the owner in either case.
func (t *taking) commit(ctx context.Context, try Try) (Decision, error) {
	decision, err := t.sendTry(ctx, try)
	if err == nil || postgres.RolledBack(err) {
		return decision, err
	}
	t.doubt = true
	var readErr error
	postgres.Recall(ctx, func(int) (done bool) {
		decision, readErr = t.keys.readBack(ctx, t.reservation)
		return readErr == nil || postgres.GaveUp(readErr)
	})
	if readErr == nil {
		return decision, nil
	}
	return nil, err
}

// expire makes a key unknown after its lease is over. The caller reads it again, also if no answer comes.
func (t *taking) expire(ctx context.Context, over KeyRow) error {
	try := Try{Loses: over.Subject, seen: &snapshot{KeyRow: over, leaseOver: true}}
	if _, err := t.sendTry(ctx, try); postgres.RolledBack(err) {
		return fmt.Errorf("expire lease: %w", err)
	}
	return nil
}

func (t *taking) sendTry(ctx context.Context, try Try) (Decision, error) {
	try.Reservation, try.doubt = t.reservation, t.doubt
	try.Alone = t.again
	t.again = true
	return t.send(ctx, try)
}

// readBack reads, after a lost acknowledgement, whether the reservation was written. The first read does not wait for
// durability, like any replay. If the row has our own lease, we will execute the key because of it. Then it is read
// again, and the read waits until the row is durable.
func (k *Keys) readBack(ctx context.Context, r Reservation) (Decision, error) {
	seen, err := k.peek(ctx, r, k.db.ReadNow)
	if _, ours := seen.(Execute); ours {
		return k.peek(ctx, r, k.readDurably)
	}
	return seen, err
}
