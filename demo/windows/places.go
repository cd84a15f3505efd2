package windows

// place is a message on the wire. It is a round of PostgreSQL's protocol with a query in it, or a call to the PSP.
type place struct {
	who    Process
	call   string // to the PSP; empty for a round
	query  string // in the round
	source string // of the evidence in the round, where several sources bring evidence to the same query
	event  bool   // the round names the PSP's webhook about the key, not the key
	before bool   // the request is held; otherwise the answer
	commit bool   // not the query itself: the commit that ends its transaction
	rival  string // a query about the key that is held as well: what follows it would move the key meanwhile
	news   bool   // the round has the PSP's webhook that reports the charge, and no other webhook
	lost   bool   // the API cannot read the PSP's object: its request must end without knowing the outcome
	object bool   // the provider makes an object first, and executes it afterwards
}

// The calls to the PSP that can be held.
const (
	charge = "charge" // the request that moves the money
	lookup = "lookup"
	cancel = "cancel"
)

// The sources of evidence, as the product writes them into the timeline.
const (
	byWebhook = "webhook"
	byLookup  = "lookup"
)

// The test tokens of the payments.
const (
	paid     = "pm_ok"
	reported = "pm_reset_charged"  // charged; the answer is lost, and a webhook tells
	silent   = "pm_silent_charged" // charged; nobody tells
	stuck    = "pm_stuck"          // charged; nobody tells, and each lookup fails
	unpaid   = "pm_never"          // not charged; the answer is lost, and nobody tells
)

// sent are the places of a payment up to the answer of the PSP.
func sent() []Window {
	return []Window{
		{"1", "the request is read; the database does not have the reservation", paid,
			place{who: API, query: "ReserveKeys", before: true}},
		{"2", "the key is reserved; the API does not know it", paid, place{who: API, query: "ReserveKeys"}},
		{"3a", "the charge is sent; the PSP does not have it", paid,
			place{who: API, call: charge, before: true}},
		{"3b", "the PSP has charged; the API does not have the answer", paid, place{who: API, call: charge}},
		{"3c", "the API has the answer; the database does not", paid,
			place{who: API, query: "CompleteKeys", before: true}},
	}
}

func answered() []Window {
	return []Window{
		{"4", "the outcome is committed; the API does not know it", paid, place{who: API, query: "CompleteKeys"}},
	}
}

// ingested are the places of a webhook in the API.
func ingested() []Window {
	return []Window{
		{"6", "the PSP's webhook is verified; it is not stored", paid,
			place{who: API, query: "StoreEvents", before: true, news: true}},
		{"7", "the PSP's webhook is stored; the API does not know it", paid,
			place{who: API, query: "StoreEvents", news: true}},
	}
}

// processed are the places of a webhook in the reconciler.
func processed() []Window {
	return []Window{
		{"8", "a worker has judged the PSP's webhook; the database does not have the outcome", reported, place{
			who: Reconciler, query: "ResolveKeys", source: byWebhook, before: true, rival: "FindPayment", lost: true,
		}},
		{"9", "the webhook has completed the key; the reconciler does not know it", reported,
			place{who: Reconciler, query: "ResolveKeys", source: byWebhook, lost: true}},
		{"10", "the webhook is marked as processed; the reconciler does not know it", reported,
			place{who: Reconciler, query: "SetResult", event: true, lost: true}},
	}
}

// claimed are the places of the transaction that takes the keys whose lookups are due.
func claimed() []Window {
	return []Window{
		{"11", "the key is taken, and its lookup is enqueued; the database does not have the commit", silent,
			place{who: Reconciler, query: "JobInsertFastMany", before: true, commit: true, lost: true}},
		{"12", "the lookup is committed; the reconciler does not know it", silent,
			place{who: Reconciler, query: "JobInsertFastMany", commit: true, lost: true}},
	}
}

// lookedUp are the places of one lookup.
func lookedUp() []Window {
	return []Window{
		{"13", "the lookup has read the key; the PSP does not have the question", silent,
			place{who: Reconciler, call: lookup, before: true, lost: true}},
		{"14", "the PSP has answered the lookup; the reconciler does not have the answer", silent,
			place{who: Reconciler, call: lookup, lost: true}},
		{"15", "the lookup has completed the key; the reconciler does not know it", silent,
			place{who: Reconciler, query: "ResolveKeys", source: byLookup, lost: true}},
		{"16", "the last lookup has failed, too; the database does not have the dead letter", stuck,
			place{who: Reconciler, query: "OpenDeadLetter", before: true}},
	}
}

// inTwoSteps are the places of a payment at a provider that makes an object first, and executes it afterwards.
func inTwoSteps() []Window {
	return []Window{
		{"27", "the PSP's object is made; the database does not have its id", paid,
			place{who: API, query: "RememberObject", before: true}},
		{"28", "the id of the PSP's object is stored; the API does not know it", paid,
			place{who: API, query: "RememberObject"}},
		{"29", "the lookup has read an object that is not executed; the PSP does not have the cancellation", unpaid,
			place{who: Reconciler, call: cancel, before: true, lost: true}},
		{"30", "the object is cancelled; the key is not released", unpaid,
			place{who: Reconciler, query: "ReleaseUnknownKey", before: true, lost: true}},
	}
}
