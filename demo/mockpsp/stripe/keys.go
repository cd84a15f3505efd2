package stripe

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// maxKeyLength is how long Stripe lets an Idempotency-Key be.
const maxKeyLength = 255

// keyRef is a key of an account. Stripe compares the path with the parameters: it is no part of the key.
type keyRef struct {
	Account string `json:"account,omitempty"`
	Key     string `json:"key,omitempty"`
}

// keyFilter selects keys. An empty member stands for all its values.
type keyFilter keyRef

func (f *keyFilter) selects(ref keyRef) bool {
	return (f.Account == "" || f.Account == ref.Account) && (f.Key == "" || f.Key == ref.Key)
}

// asked says which request is being executed. Without a key, nothing is saved.
type asked struct {
	key    keyRef
	hash   string // of path and parameters
	from   origin
	expand []string
	call   *call // that waits for the end; nil, if it has ended long ago
}

// answer is a result that is saved under a key.
type answer struct {
	Key     keyRef    `json:"key"`
	Hash    string    `json:"hash"`
	Status  int       `json:"status"`
	Body    string    `json:"body"`
	Request string    `json:"request"`
	At      time.Time `json:"at"`
}

// keyState is what is remembered of a key. A key whose execution ends without a result is forgotten at once.
type keyState struct {
	hash     string
	inFlight bool
	late     bool // executed after its call has ended
	saved    *answer
}

// keys are the idempotency keys of all accounts.
type keys struct {
	memory time.Duration

	mu     sync.Mutex
	states map[keyRef]*keyState
	saved  []*answer // oldest first; those whose time is over are dropped from its beginning
}

func newKeys(memory time.Duration) *keys {
	return &keys{memory: memory, states: map[keyRef]*keyState{}}
}

func hashRequest(r *http.Request, p *params) string {
	sum := sha256.Sum256([]byte(r.Method + " " + r.URL.Path + "\n" + p.canonical()))
	return hex.EncodeToString(sum[:])
}

// reserve takes the right to execute a key, for one caller at a time, or returns the result that is saved. Every error
// is an [apiError] that leaves the key as it was.
func (k *keys) reserve(by asked, now time.Time) (*answer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expire(now)
	state := k.states[by.key]
	switch {
	case state == nil:
		k.states[by.key] = &keyState{hash: by.hash, inFlight: true}
		return nil, nil
	case state.hash != by.hash:
		return nil, apiError{status: http.StatusBadRequest, kind: idempotencyError,
			message: fmt.Sprintf("Keys for idempotent requests can only be used with the same parameters and endpoint "+
				"they were first used with. Try using a key other than '%s' if you meant to execute a different request.",
				by.key.Key)}
	case state.inFlight || state.late:
		return nil, apiError{status: http.StatusConflict, kind: idempotencyError, code: "idempotency_key_in_use",
			message: fmt.Sprintf("There is currently another in-progress request using this Idempotent Key: %s",
				by.key.Key)}
	default:
		return state.saved, nil
	}
}

// expire forgets the results whose time is over. The caller holds k.mu.
func (k *keys) expire(now time.Time) {
	for len(k.saved) > 0 && now.Sub(k.saved[0].At) >= k.memory {
		k.dropSaved(k.saved[0])
		k.saved[0] = nil
		k.saved = k.saved[1:]
	}
}

// dropSaved forgets a result, unless its key has another one by now. The caller holds k.mu.
func (k *keys) dropSaved(old *answer) {
	if state := k.states[old.Key]; state != nil && state.saved == old {
		delete(k.states, old.Key)
	}
}

// release ends a reservation.
func (k *keys) release(ref keyRef) {
	k.mu.Lock()
	defer k.mu.Unlock()
	state := k.states[ref]
	if state == nil {
		return
	}
	state.inFlight = false
	k.tidy(ref, state)
}

// tidy forgets a key that stands for nothing. The caller holds k.mu.
func (k *keys) tidy(ref keyRef, state *keyState) {
	if !state.inFlight && !state.late && state.saved == nil {
		delete(k.states, ref)
	}
}

// publish remembers what a change means for keys. Replaced is the intent as it was before.
func (k *keys) publish(ch *change, replaced *intent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if replaced != nil && replaced.isLate() && !ch.Intent.isLate() {
		k.endLate(replaced.Due.Key)
	}
	if ch.Intent != nil && ch.Intent.isLate() {
		k.beginLate(ch.Intent.Due)
	}
	if ch.Promise != nil {
		k.beginLate(ch.Promise.Due)
	}
	if a := ch.Answer; a != nil {
		state := k.state(a.Key, a.Hash)
		state.saved, state.late = a, false
		k.saved = append(k.saved, a)
	}
	if ch.Forgets != nil {
		for ref, state := range k.states {
			if ch.Forgets.selects(ref) && !state.late {
				state.saved = nil
				k.tidy(ref, state)
			}
		}
	}
}

func (k *keys) state(ref keyRef, hash string) *keyState {
	state := k.states[ref]
	if state == nil {
		state = &keyState{hash: hash}
		k.states[ref] = state
	}
	return state
}

func (k *keys) beginLate(d *due) {
	if d.Key.Key != "" {
		k.state(d.Key, d.Hash).late = true
	}
}

func (k *keys) endLate(ref keyRef) {
	if state := k.states[ref]; state != nil {
		state.late = false
		k.tidy(ref, state)
	}
}

// count returns how many results a filter selects.
func (k *keys) count(filter *keyFilter) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for ref, state := range k.states {
		if filter.selects(ref) && state.saved != nil {
			n++
		}
	}
	return n
}
