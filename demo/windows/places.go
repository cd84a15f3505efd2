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
	words := Words{
		Happened: "The request has been sent. Its outcome is not written.",
		Lost:     "The answer. The customer may have been charged.",
		FoundBy:  "A webhook, a lookup or the ledger scan. The key is unknown until one of them brings evidence.",
	}
	return []Window{
		{"1", "the request is read; the database does not have the reservation", Words{
			Happened: "The request has been read. Transaction 1 is not committed.",
			Lost:     "Nothing. Nobody has been charged.",
			FoundBy:  "The client retries, and that is a new request.",
		}, paid, place{who: API, query: "ReserveKeys", before: true}},
		{"2", "the key is reserved; the API does not know it", Words{
			Happened: "The key is reserved and the payment is processing. Nothing has been sent.",
			Lost:     "The request. The key blocks its own retries until the lease is over.",
			FoundBy: "The sweeper makes the key unknown. A lookup finds nothing after the grace period and releases the " +
				"key.",
		}, paid, place{who: API, query: "ReserveKeys"}},
		{"3a", "the charge is sent; the PSP does not have it", words, paid,
			place{who: API, call: charge, before: true}},
		{"3b", "the PSP has charged; the API does not have the answer", words, paid, place{who: API, call: charge}},
		{"3c", "the API has the answer; the database does not", words, paid,
			place{who: API, query: "CompleteKeys", before: true}},
	}
}

func answered() []Window {
	return []Window{{"4", "the outcome is committed; the API does not know it", Words{
		Happened: "The outcome is committed. The client has no answer.",
		Lost:     "The HTTP response.",
		FoundBy:  "The client retries and gets the stored bytes.",
	}, paid, place{who: API, query: "CompleteKeys"}}}
}

// ingested are the places of a webhook in the API.
func ingested() []Window {
	return []Window{
		{"6", "the PSP's webhook is verified; it is not stored", Words{
			Happened: "The signature is verified. The event is not stored.",
			Lost:     "The event.",
			FoundBy:  "The PSP has no 204, so it sends the event again.",
		}, paid, place{who: API, query: "StoreEvent", before: true, news: true}},
		{"7", "the PSP's webhook is stored; the API does not know it", Words{
			Happened: "The event and its job are committed. The PSP has no 204.",
			Lost:     "The acknowledgement.",
			FoundBy:  "The PSP sends the event again. Its id is stored already, so the second copy changes nothing.",
		}, paid, place{who: API, query: "StoreEvent", commit: true, news: true}},
	}
}

// processed are the places of a webhook in the reconciler.
func processed() []Window {
	return []Window{
		{"8", "a worker has judged the PSP's webhook; the database does not have the outcome", Words{
			Happened: "A worker has taken the job. The key has not moved.",
			Lost:     "This run of the job.",
			FoundBy:  "River runs the job again.",
		}, reported, place{
			who: Reconciler, query: "ResolveKeys", source: byWebhook, before: true, rival: "FindPayment", lost: true,
		}},
		{"9", "the webhook has completed the key; the reconciler does not know it", Words{
			Happened: "The evidence is applied. The event is not marked as processed.",
			Lost:     "The mark.",
			FoundBy:  "The job runs again. The same evidence confirms what is known.",
		}, reported, place{who: Reconciler, query: "ResolveKeys", source: byWebhook, lost: true}},
		{"10", "the webhook is marked as processed; the reconciler does not know it", Words{
			Happened: "The event is marked. The job is not finished.",
			Lost:     "The end of the job.",
			FoundBy:  "The job runs again and finds a processed event.",
		}, reported, place{who: Reconciler, query: "SetResult", event: true, lost: true}},
	}
}

// claimed are the places of the transaction that takes the keys whose lookups are due.
func claimed() []Window {
	return []Window{
		{"11", "the key is taken, and its lookup is enqueued; the database does not have the commit", Words{
			Happened: "Overdue keys are taken and their lookups are enqueued. Nothing is committed.",
			Lost:     "The whole batch, which is one transaction.",
			FoundBy:  "The next run of the sweeper, on any machine.",
		}, silent, place{who: Reconciler, query: "JobInsertFastMany", before: true, commit: true, lost: true}},
		{"12", "the lookup is committed; the reconciler does not know it", Words{
			Happened: "The batch is committed. The process does not know.",
			Lost:     "The acknowledgement.",
			FoundBy:  "Nobody has to: keys and jobs are there together.",
		}, silent, place{who: Reconciler, query: "JobInsertFastMany", commit: true, lost: true}},
	}
}

// lookedUp are the places of one lookup.
func lookedUp() []Window {
	return []Window{
		{"13", "the lookup has read the key; the PSP does not have the question", Words{
			Happened: "The lookup has read the key. The PSP has not been asked.",
			Lost:     "This lookup.",
			FoundBy:  "River runs the job again. Without the job, the key is due again after a minute.",
		}, silent, place{who: Reconciler, call: lookup, before: true, lost: true}},
		{"14", "the PSP has answered the lookup; the reconciler does not have the answer", Words{
			Happened: "The PSP has answered. Nothing is written.",
			Lost:     "The answer.",
			FoundBy:  "The next lookup asks again. A question proves something only by the time at which it was asked.",
		}, silent, place{who: Reconciler, call: lookup, lost: true}},
		{"15", "the lookup has completed the key; the reconciler does not know it", Words{
			Happened: "The step is committed. The job is not finished.",
			Lost:     "The end of the job.",
			FoundBy:  "The job runs again and finds a key that is not unknown.",
		}, silent, place{who: Reconciler, query: "ResolveKeys", source: byLookup, lost: true}},
		{"16", "the last lookup has failed, too; the database does not have the dead letter", Words{
			Happened: "A step with a dead letter is judged. Neither the step nor the dead letter is written.",
			Lost:     "Both: they are one transaction.",
			FoundBy:  "The next lookup, webhook or scan that brings the same evidence.",
		}, stuck, place{who: Reconciler, query: "OpenDeadLetter", before: true}},
	}
}

// inTwoSteps are the places of a payment at a provider that makes an object first, and executes it afterwards.
func inTwoSteps() []Window {
	return []Window{
		{"27", "the PSP's object is made; the database does not have its id", Words{
			Happened: "The PSP has made an object, which moves no money. Its id is not stored.",
			Lost:     "The id. Nobody executes this object.",
			FoundBy: "A lookup makes the same object again, under the same key, so the PSP returns its id. The lookup " +
				"cancels the object and releases the key.",
		}, paid, place{who: API, query: "RememberObject", before: true}},
		{"28", "the id of the PSP's object is stored; the API does not know it", Words{
			Happened: "The id of the PSP's object is stored. The object is not executed.",
			Lost:     "The request. The key blocks its own retries until the lease is over.",
			FoundBy:  "A lookup reads the object, cancels it and releases the key. It does not wait for the grace period.",
		}, paid, place{who: API, query: "RememberObject"}},
		{"29", "the lookup has read an object that is not executed; the PSP does not have the cancellation", Words{
			Happened: "A lookup has read the PSP's object, which is not executed. The object is not cancelled.",
			Lost:     "This lookup.",
			FoundBy:  "The next lookup reads the object again. It may be executed by then.",
		}, unpaid, place{who: Reconciler, call: cancel, before: true, lost: true}},
		{"30", "the object is cancelled; the key is not released", Words{
			Happened: "The PSP's object is cancelled. The key is not released.",
			Lost:     "The answer.",
			FoundBy:  "The next lookup finds that the object is cancelled, and releases the key.",
		}, unpaid, place{who: Reconciler, query: "ReleaseUnknownKey", before: true, lost: true}},
	}
}
