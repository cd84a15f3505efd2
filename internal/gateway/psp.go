package gateway

import (
	"context"
	"net/http"
	"time"
)

// PSP is a payment service provider: everything that payments may ask of one. Package native speaks the
// mock's own dialect, and package stripe speaks Stripe's. A PSP is safe for concurrent use.
type PSP interface {
	// Traits are what this provider promises and needs. They never change.
	Traits() Traits
	// Ready reports whether a request of the account would be sent now. It would not while the account's breaker is
	// open. The caller asks before it reserves anything.
	Ready(account string) bool

	// Prepare makes the PSP's object of a charge, for a provider with [Traits.TwoSteps]. The object moves no money. The
	// caller stores its id before it calls Charge. If there is no object, refused says why, and nothing was executed.
	// A provider without TwoSteps returns "" and nil.
	Prepare(ctx context.Context, ch Charge) (objectID string, refused Outcome)
	// Charge moves the money, once.
	Charge(ctx context.Context, ch Charge) Outcome
	// Refund gives money back, once.
	Refund(ctx context.Context, r Refund) Outcome

	// Lookup asks what became of a request. end says which requests the PSP may end for that, so that they are never
	// executed.
	Lookup(ctx context.Context, r Request, end End) Lookup
	// List reads one page of the account's charges or refunds that were created after a time, oldest first. Records of
	// the same second as that time may be among them. The zero time means from the beginning. The cursor of the first
	// page is "".
	List(ctx context.Context, o Object, account string, after time.Time, cursor string) (Page, error)

	// VerifyEvent checks that a webhook is genuine. Otherwise it fails with a [VerifyError].
	VerifyEvent(header http.Header, body []byte) (Delivery, error)
	// ParseEvent reads the body of a genuine webhook. It fails with ErrPayload or ErrUnknownType, or with another error
	// if it cannot tell yet whose the object is.
	ParseEvent(body []byte) (Event, error)

	// InFlight is the number of requests in flight, of all accounts.
	InFlight() int
	// Close drops idle connections.
	Close()
}

// Traits are the facts about a provider. The product depends on Name, KeyMemory, TwoSteps, Refuses and Redacted. The
// others are for the conformance suite and for docs/providers.md.
type Traits struct {
	// Name is the provider's name in settings, in the table tenants, and in the ids of its stored events.
	Name string
	// LongestKey is how many characters the provider takes as an idempotency key. A longer key is replaced by its hash
	// ([FitKey]).
	LongestKey int
	// KeyMemory is how long the provider recognises a key by its own documents. Package app refuses a longer
	// PSP_KEY_MEMORY, except for the mock, whose memory is a setting of its own.
	KeyMemory time.Duration
	// Proof is how a lookup proves that a charge was not executed. Refunds are proven by absence everywhere.
	Proof Proof
	// TwoSteps says that a charge is made first, and executed by a second request.
	TwoSteps bool
	// NewestFirst says that the provider's own lists begin with the newest record. [PSP.List] is oldest first anyway.
	NewestFirst bool
	// ForeignRecords says that the account may have charges that this installation did not make. They are counted, and
	// need no operator.
	ForeignRecords bool
	// IgnoresEvents says that the provider sends types of events that nobody asked for. They need no operator.
	IgnoresEvents bool
	// Exponents are the currencies whose amounts the provider counts with other decimal digits than ISO 4217.
	Exponents map[string]int
	// Refuses says why the provider can never take a charge or refund, before anything is reserved. It returns nil if
	// the provider can.
	Refuses func(Request) *Unacceptable
	// Redacted is a webhook's body as it may be stored: without secrets, and as parseable as before. It is nil if the
	// bodies have no secrets.
	Redacted func(body []byte) []byte
}

// Proof is how a provider proves that a charge was not executed.
type Proof string

// The kinds of proof.
const (
	// ProofByAbsence: a lookup by the key finds nothing after the grace period.
	ProofByAbsence Proof = "absence after the grace period"
	// ProofByCancelling: the provider has ended the charge. It is a fact at once.
	ProofByCancelling Proof = "cancelled"
)

// Unacceptable says which member of a request a provider cannot take, and why.
type Unacceptable struct {
	Member Member
	Detail string // for the client; it has no value of the client's
}

// Member is a member of a request that a provider may not be able to take.
type Member string

// The members.
const (
	AmountMember   Member = "amount"
	CurrencyMember Member = "currency"
	TokenMember    Member = "token"
)

// End says which requests a lookup may end, so that they are never executed.
type End string

// What a lookup may end.
const (
	// EndNothing: the lookup only reads. A person asks.
	EndNothing End = "nothing"
	// EndUnsent: it ends a charge whose execution was not begun.
	EndUnsent End = "unsent"
	// EndWaiting: it also ends a charge that waits for the customer. The grace period is over.
	EndWaiting End = "waiting"
	// EndDecided: as EndWaiting, and an operator says that nothing was executed. If the PSP lists anything that was
	// executed under the key, whatever for, the lookup finds that, and ends nothing.
	EndDecided End = "decided"
)

// Limits bound what one process uses of a PSP.
type Limits struct {
	Dial  time.Duration // longest time to connect
	Total time.Duration // longest time from sending to the end of the answer
	// Held is the part of Total in which no answer comes, unless the demo has held it on its way (config.Shared.Hold).
	Held  time.Duration
	Queue time.Duration // longest wait for a place for the request
	// InFlight is how many requests may be in flight, with reads. An account may hold half of the free places, and
	// always one.
	InFlight int
	Stall    time.Duration // longest wait for the next bytes of a statement, to which Total does not apply

	BreakerFailures uint32        // so many failures in a row open an account's breaker
	BreakerOpen     time.Duration // how long the breaker stays open before it lets one request pass
}

// DefaultLimits are the values of the settings' defaults.
func DefaultLimits() Limits {
	return Limits{
		Dial: 2 * time.Second, Total: 8 * time.Second, Queue: time.Second, InFlight: 64, Stall: 30 * time.Second,
		BreakerFailures: 20, BreakerOpen: 5 * time.Second,
	}
}
