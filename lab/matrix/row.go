package main

import "payonce/internal/tenants"

// flow is a group of rows.
type flow struct {
	name  string // as a selection calls it
	title string
	rows  []row
}

// row is one boundary of a flow, and what is done around it.
type row struct {
	window int    // the number of the crash window
	step   string // what lies behind the boundary, and what before
	at     boundary
	victim string      // world.API, unless it is given
	psp    tenants.PSP // that all tenants are at; native, unless it is given
	// noWebhooks: the PSP tells nobody, so that lookups and the scan have to find out.
	noWebhooks bool
	client     bool // who waits for an answer to what begin has sent
	oneServer  bool // it looks at who waits for a lock, which on Citus is to be asked in another way
	forgets    bool // webhooks, which are not counted against the PSP's ledger then
	env        map[string]string

	// script is the whole play of a scene, from the beginning to a final answer; it has no boundary.
	script func(*stage) error

	prepare func(*stage) error // brings the world to where the flow can begin
	begin   func(*stage) error // begins it; what is held there is not waited for
	heal    func(*stage) error // repairs what prepare has broken, after the fault
	finish  func(*stage) error // waits for the end, which the world has to come to; may be called again
	want    want
	but     map[fault]want
}

// want is what a cell expects beside the invariants.
type want struct {
	// posts is how many requests to move money under the case's key the PSP has got, from and to.
	posts [2]int
	// replayed is what the first final answer has said of itself; empty for either.
	replayed string
	check    func(*stage) error
}

func (r row) wants(f fault) want {
	if f == hangUp { // nobody heard the answer of the first request, which was executed all the same
		return want{posts: r.want.posts, replayed: "true", check: (*stage).ownerFinished}
	}
	if w, given := r.but[f]; given {
		if w.check == nil {
			w.check = r.want.check
		}
		return w
	}
	return r.want
}

// place is where a row is held.
func (r row) place() string {
	if r.script != nil {
		return "a course of its own"
	}
	return r.at.String()
}
