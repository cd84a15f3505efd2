package judge

import (
	"time"

	"payonce/lab/grade/plan"
	"payonce/lab/grade/profile"
)

// Answer is a request and what came back.
type Answer struct {
	Intent       int
	Step         plan.Kind // that it was sent by
	On           int       // the instance
	Asked, Heard time.Time
	Meaning      profile.Meaning
	Status       int
	Body         []byte
	Err          string // why there is no answer
	Life         int    // how often the key's time was over before it
}

// Other reports whether the request asked for another amount.
func (a Answer) Other() bool { return a.Step == plan.Other }

// Charge is an entry of the PSP's ledger.
type Charge struct {
	At        time.Time
	ID        string
	Intent    int
	Other     bool // it has the amount of the other request
	Succeeded bool
	Amount    int64
}

// Event is anything else that happened.
type Event struct {
	At    time.Time
	Where string // client, server, database or PSP
	Text  string
}

// Run is one case that was played.
type Run struct {
	Case    plan.Case
	Amounts []int64  // by intent
	Others  []int64  // of the requests with another amount
	Answers []Answer // in the order in which they were heard
	Charges []Charge
	Events  []Event
	// NotFinal are the intents whose until-final step found no end, Unseen those whose look step did not.
	NotFinal, Unseen []int
	// Unfollowed is, by intent, what the server did not show, or grant, of what others have done at the PSP.
	Unfollowed map[int]string
	// NotShown is why the case could not be played as it is meant.
	NotShown string
}
