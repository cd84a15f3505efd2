package payments

import (
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"payonce/internal/idempotency"
)

// This file is added to payments when the bench builds the API with a read-through of replays (go build -overlay); Create then calls readThrough
// in place of execute. BENCH_CACHE says where answers are kept: "memory", or the socket of a Redis; with "select", nowhere: the database is asked
// by a SELECT first. It is here to be measured, with everything in its favour, and nothing but the bench has it: docs/performance.md says why.

// kept is a final answer with what it was given to.
type kept struct {
	fingerprint idempotency.Fingerprint
	expires     time.Time
	response    idempotency.Response
}

// keeper keeps answers for a while. It may forget any of them at any time.
type keeper interface {
	get(ctx context.Context, name string) (kept, bool)
	put(name string, k kept)
}

var theKeeper = sync.OnceValue(func() keeper {
	where := os.Getenv("BENCH_CACHE")
	switch where {
	case "memory":
		return newMemory()
	case "select":
		return nil
	}
	if !strings.HasPrefix(where, "/") {
		panic("BENCH_CACHE is neither memory nor select nor the path of a socket")
	}
	return newRedis(where)
})

// readThrough answers from what is kept where that is the final answer to the same request. Everything else is as without: also another
// fingerprint, which only the database can judge.
func (s *Service) readThrough(
	ctx context.Context, ref idempotency.Ref, f idempotency.Fingerprint, subject uuid.UUID, m movement,
) (Answer, error) {
	keeper, name := theKeeper(), lockOrder(ref)
	if keeper == nil {
		return s.selectFirst(ctx, ref, f, subject, m)
	}
	if k, found := keeper.get(ctx, name); found && k.fingerprint == f && time.Now().Before(k.expires) {
		s.metrics.Reserved("replay")
		return Final{Response: k.response, Replayed: true, Expires: k.expires}, nil
	}
	answer, err := s.execute(ctx, ref, f, subject, m)
	if final, ok := answer.(Final); ok && err == nil {
		keeper.put(name, kept{fingerprint: f, expires: final.Expires, response: final.Response})
	}
	return answer, err
}

// selectFirst reads before it reserves. A replay is then a plain SELECT, and a new payment has one round trip more.
func (s *Service) selectFirst(
	ctx context.Context, ref idempotency.Ref, f idempotency.Fingerprint, subject uuid.UUID, m movement,
) (Answer, error) {
	decision, err := s.keys.Peek(ctx, s.keys.NewReservation(ref, f, uuid.UUID{}, subject))
	if replay, ok := decision.(idempotency.Replay); ok && err == nil {
		return s.answerDecision(ctx, ref, replay, m)
	}
	return s.execute(ctx, ref, f, subject, m)
}

// memory keeps answers in the process. It is bounded in the cheapest way that still favours what is asked for again: when the young ones are
// too many they become the old ones, and the old ones are forgotten unless somebody asks for them before.
type memory struct {
	ages  atomic.Pointer[ages]
	turns sync.Mutex
}

type ages struct {
	young, old *sync.Map
	count      atomic.Int64 // of the young
}

// memoryLimit is the most that each of the two ages has; an answer takes about a kilobyte.
const memoryLimit = 20_000

func newMemory() *memory {
	m := &memory{}
	m.ages.Store(&ages{young: &sync.Map{}, old: &sync.Map{}})
	return m
}

func (m *memory) get(_ context.Context, name string) (kept, bool) {
	a := m.ages.Load()
	if found, ok := a.young.Load(name); ok {
		return *found.(*kept), true
	}
	found, ok := a.old.Load(name)
	if !ok {
		return kept{}, false
	}
	m.put(name, *found.(*kept))
	return *found.(*kept), true
}

func (m *memory) put(name string, k kept) {
	a := m.ages.Load()
	if _, known := a.young.Swap(name, &k); known || a.count.Add(1) < memoryLimit {
		return
	}
	m.turns.Lock()
	defer m.turns.Unlock()
	if m.ages.Load() == a {
		m.ages.Store(&ages{young: &sync.Map{}, old: a.young})
	}
}
