package windows

import "slices"

// Window is a place on the path of a payment at which it can be stopped.
type Window struct {
	// ID is the number of the window in docs/crash_windows.md. It has a letter where the window has several places.
	ID    string
	Place string // which step is done, and which is not
	Words
	at place
}

// Words say of a window what docs/crash_windows.md says.
type Words struct{ Happened, Lost, FoundBy string }

// place is a message on the wire. It is a round of PostgreSQL's protocol with a query in it, or a call to the PSP.
type place struct {
	query  string // empty: the charge
	before bool   // the request is held; otherwise the answer
	commit bool   // not the query itself: the commit that ends its transaction
}

// Windows lists the windows, in the order of a payment.
func Windows() []Window {
	sent := Words{
		Happened: "The request has been sent. Its outcome is not written.",
		Lost:     "The answer. The customer may have been charged.",
		FoundBy:  "A webhook, a lookup or the ledger scan. The key is unknown until one of them brings evidence.",
	}
	return []Window{
		{"1", "the request is read; the database does not have the reservation", Words{
			Happened: "The request has been read. Transaction 1 is not committed.",
			Lost:     "Nothing. Nobody has been charged.",
			FoundBy:  "The client retries, and that is a new request.",
		}, place{query: "ReserveKeys", before: true}},
		{"2", "the key is reserved; the API does not know it", Words{
			Happened: "The key is reserved and the payment is processing. Nothing has been sent.",
			Lost:     "The request. The key blocks its own retries until the lease is over.",
			FoundBy: "The sweeper makes the key unknown. A lookup finds nothing after the grace period and releases the " +
				"key.",
		}, place{query: "ReserveKeys"}},
		{"3a", "the charge is sent; the PSP does not have it", sent, place{before: true}},
		{"3b", "the PSP has charged; the API does not have the answer", sent, place{}},
		{"3c", "the API has the answer; the database does not", sent, place{query: "CompleteKeys", before: true}},
		{"4", "the outcome is committed; the API does not know it", Words{
			Happened: "The outcome is committed. The client has no answer.",
			Lost:     "The HTTP response.",
			FoundBy:  "The client retries and gets the stored bytes.",
		}, place{query: "CompleteKeys"}},
		{"6", "the PSP's webhook is verified; it is not stored", Words{
			Happened: "The signature is verified. The event is not stored.",
			Lost:     "The event.",
			FoundBy:  "The PSP has no 204, so it sends the event again.",
		}, place{query: "StoreEvent", before: true}},
		{"7", "the PSP's webhook is stored; the API does not know it", Words{
			Happened: "The event and its job are committed. The PSP has no 204.",
			Lost:     "The acknowledgement.",
			FoundBy:  "The PSP sends the event again. Its id is stored already, so the second copy changes nothing.",
		}, place{query: "StoreEvent", commit: true}},
	}
}

// Action is what a person does about a payment that is held.
type Action string

// The actions. Each of them ends the hold.
const (
	GoOn                Action = "go-on"
	Kill                Action = "kill"
	Pause               Action = "pause"
	Cut                 Action = "cut"
	LoseAcknowledgement Action = "lose-acknowledgement"
	PSPFails            Action = "psp-500"
)

// Choice is an action with its words.
type Choice struct {
	Action       Action
	Label, Means string
}

// Choices are the actions that make sense at the window.
func (w Window) Choices() []Choice {
	choices := []Choice{
		{GoOn, "Go on", "Nothing fails."},
		{Kill, "kill -9 the API", "The message that is held is lost with the process. Another one starts after a second."},
		{Pause, "Pause it for 5 seconds", "The API does nothing. The message goes on meanwhile."},
	}
	switch toPSP := w.at.query == ""; {
	case toPSP && w.at.before:
		return append(choices,
			Choice{Cut, "Cut the connection", "The charge is lost. The API cannot know that."},
			Choice{PSPFails, "PSP 500", "The API is told 500. The PSP has not charged."})
	case toPSP:
		return append(choices,
			Choice{Cut, "Cut the connection", "The answer is lost. The PSP has charged."},
			Choice{PSPFails, "PSP 500", "The API is told 500. The PSP has charged."})
	case w.at.before:
		return append(choices, Choice{Cut, "Cut the connection", "The statement never reaches the database."})
	}
	return append(choices, Choice{LoseAcknowledgement, "Lose the acknowledgement",
		"The API's connection breaks. The database has committed, and the API must find that out."})
}

func (w Window) allows(a Action) bool {
	return slices.ContainsFunc(w.Choices(), func(c Choice) bool { return c.Action == a })
}
