package plan

import (
	"math/rand/v2"
)

// Test tokens of the mock PSP.
const (
	ok           = "pm_ok"
	declined     = "pm_declined"
	slow         = "pm_slow"
	never        = "pm_never"
	late         = "pm_late_charge"
	forgottenKey = "pm_forgotten_key"
	notCharged   = "pm_500_not_charged"
)

// lost are the tokens by which an answer is lost: those of charges first.
func lost() (charged, not []string) {
	return []string{"pm_timeout_charged", "pm_500_charged", "pm_reset_charged", "pm_silent_charged"},
		[]string{"pm_timeout_not_charged", notCharged}
}

type draw struct{ *rand.Rand }

func (d *draw) from(low, high int) int { return low + d.IntN(high-low+1) }

// one is a case of one intent.
func one(name, token string, steps ...Step) Case {
	return Case{Name: name, Intents: []Intent{{Token: token}}, Steps: steps}
}

// end is how most cases end: the client repeats the request until it knows, and once more to see that this stays.
func end() []Step { return []Step{{Kind: UntilFinal}, {Kind: Again, N: 1}} }

// held is a charge that is held while the steps in between happen.
func held(kind Kind, group, intent int, on int) []Step {
	return []Step{{Kind: kind, Intent: intent, Group: group}, {Kind: Send, Intent: intent, N: 1, On: on},
		{Kind: Reached, Intent: intent, Group: group}}
}

func release(group, intent int) Step { return Step{Kind: Release, Intent: intent, Group: group} }

func join(parts ...[]Step) []Step {
	var all []Step
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func steps(all ...Step) []Step { return all }

func (d *draw) retries() []Case {
	cases := []Case{
		one("a payment is asked for again", ok, Step{Kind: Send, N: 1}, Step{Kind: Await}, Step{Kind: UntilFinal},
			Step{Kind: Again, N: d.from(2, 4)}),
		one("a decline is asked for again", declined, Step{Kind: Send, N: 1}, Step{Kind: Await}, Step{Kind: UntilFinal},
			Step{Kind: Again, N: d.from(2, 4)}),
		one("a slow payment is asked for again", slow, Step{Kind: Send, N: 1}, Step{Kind: Await},
			Step{Kind: UntilFinal}, Step{Kind: Again, N: 2}),
	}
	return append(cases, one("a key is used again when its time is over", ok,
		Step{Kind: ShortLives, Group: 1}, Step{Kind: Send, N: 1}, Step{Kind: Await},
		Step{Kind: UntilFinal}, Step{Kind: Expire, Group: 1}, Step{Kind: Renew, Group: 1},
		Step{Kind: LongLives, Group: 1}))
}

func (d *draw) atOnce() []Case {
	both := func(name, token string, n int) Case {
		return one(name, token, join(steps(Step{Kind: Send, N: n}, Step{Kind: Await}), end())...)
	}
	return []Case{
		both("two at once", ok, 2),
		both("many at once", ok, d.from(8, 16)),
		both("some at once, the PSP is slow", slow, d.from(3, 6)),
		both("declines at once", declined, d.from(2, 5)),
		one("more come while the first one waits for the PSP", ok,
			join(held(HoldAnswer, 1, 0, 0), steps(Step{Kind: Send, N: d.from(2, 5)}, release(1, 0), Step{Kind: Await}),
				end())...),
	}
}

func (d *draw) otherPayloads() []Case {
	charged, _ := lost()
	other := Step{Kind: Other}
	return []Case{
		one("another amount after a payment", ok,
			join(steps(Step{Kind: Send, N: 1}, Step{Kind: Await}, Step{Kind: UntilFinal}, other), end())...),
		one("another amount after a decline", declined,
			join(steps(Step{Kind: Send, N: 1}, Step{Kind: Await}, Step{Kind: UntilFinal}, other), end())...),
		one("another amount while the first request waits for the PSP", ok,
			join(held(HoldAnswer, 1, 0, 0),
				steps(other, release(1, 0), Step{Kind: Await}, Step{Kind: UntilFinal}, other), end())...),
		one("another amount after a lost answer", charged[d.IntN(len(charged))],
			join(steps(Step{Kind: Send, N: 1}, Step{Kind: Await}, other, Step{Kind: UntilFinal}, other), end())...),
		one("another amount after an outage", notCharged,
			join(steps(Step{Kind: Send, N: 1}, Step{Kind: Await}, other, Step{Kind: UntilFinal}, other), end())...),
	}
}

func (d *draw) lostAnswers() []Case {
	charged, not := lost()
	var cases []Case
	for _, token := range append(append([]string{}, charged...), not...) {
		cases = append(cases, one("the client asks again after "+token, token,
			join(steps(Step{Kind: Send, N: 1}, Step{Kind: Await}), end())...))
	}
	for _, token := range charged {
		cases = append(cases, one("the client never asks again after "+token, token,
			Step{Kind: Send, N: 1}, Step{Kind: Await}, Step{Kind: Look}))
	}
	return append(cases,
		one("the client hangs up while the PSP works", ok,
			join(held(HoldAnswer, 1, 0, 0), steps(Step{Kind: HangUp}, release(1, 0), Step{Kind: Await}), end())...),
		one("the client hangs up, and never asks again", ok,
			join(held(HoldAnswer, 1, 0, 0), steps(Step{Kind: HangUp}, release(1, 0), Step{Kind: Await},
				Step{Kind: Look}))...))
}

func (d *draw) lateCharges() []Case {
	return []Case{
		one("the charge lands after the PSP has closed the connection", late,
			join(steps(Step{Kind: Send, N: 1}, Step{Kind: Await}), end())...),
		one("the client is impatient", late,
			join(steps(Step{Kind: Send, N: 1}, Step{Kind: Await}, Step{Kind: Again, N: d.from(3, 6)}), end())...),
		one("the client never asks again", late, Step{Kind: Send, N: 1}, Step{Kind: Await}, Step{Kind: Look}),
		// Only a lookup can find this charge, and it is made before the grace period is over.
		one("the client never asks again, and the PSP reports nothing", late, Step{Kind: Silence, Group: 1},
			Step{Kind: Send, N: 1}, Step{Kind: Await}, Step{Kind: Look}, Step{Kind: Order, Group: 1}),
		one("the answer is lost, and the PSP forgets the key", forgottenKey,
			join(steps(Step{Kind: Send, N: 1}, Step{Kind: Await}), end())...),
		one("the request is a long time on its way", ok,
			join(held(HoldRequest, 1, 0, 0), steps(Step{Kind: Await}, Step{Kind: Again, N: 2}, release(1, 0)),
				end())...),
	}
}

// kills stop a process with kill -9 while its charges are at three places: before the PSP, in it, and after it.
func (d *draw) kills() []Case {
	return []Case{
		threePlaces("kill -9; the client goes to the other instance",
			steps(Step{Kind: Kill, On: 1, Group: 9}),
			steps(Step{Kind: UntilFinal, Intent: All}, Step{Kind: Start, On: 1, Group: 9},
				Step{Kind: Again, Intent: All, N: 1})),
		threePlaces("kill -9, and a new start",
			steps(Step{Kind: Kill, On: 1, Group: 9}, Step{Kind: Start, On: 1, Group: 9}),
			steps(Step{Kind: UntilFinal, Intent: All}, Step{Kind: Again, Intent: All, N: d.from(1, 2)})),
		{
			Name: "kill -9, and no client asks again", Intents: []Intent{{Token: ok}},
			Steps: join(held(HoldAnswer, 1, 0, 1), steps(
				Step{Kind: Kill, On: 1, Group: 9}, Step{Kind: Start, On: 1, Group: 9}, release(1, 0),
				Step{Kind: Await, Intent: All}, Step{Kind: Look})),
		},
	}
}

// threePlaces has three payments at instance 1 when it is struck: one whose request has not reached the PSP, one that
// was charged and whose answer is on its way, and a decline whose answer is on its way.
func threePlaces(name string, strike, after []Step) Case {
	return Case{
		Name: name, Intents: []Intent{{Token: ok}, {Token: ok}, {Token: declined}},
		Steps: join(held(HoldRequest, 1, 0, 1), held(HoldAnswer, 2, 1, 1), held(HoldAnswer, 3, 2, 1),
			strike, steps(release(1, 0), release(2, 1), release(3, 2), Step{Kind: Await, Intent: All}), after),
	}
}

// pauses stop a process for longer than it may be the only one to execute a key. It goes on as if nothing had
// happened, with an answer of the PSP that is old by then.
func (d *draw) pauses() []Case {
	back := func(group, intent int, token string, kind Kind, name string) Case {
		return Case{
			Name: name, Intents: []Intent{{Token: token}},
			Steps: join(held(kind, group, intent, 1), steps(
				Step{Kind: Pause, On: 1, Group: 9}, Step{Kind: Try, Intent: intent, On: 2},
				release(group, intent), Step{Kind: Resume, On: 1, Group: 9},
				Step{Kind: Await, Intent: All}, Step{Kind: Read, Intent: intent},
				Step{Kind: Again, Intent: intent, N: 2}), end()),
		}
	}
	return []Case{
		back(1, 0, notCharged, HoldAnswer, "the paused process comes back with an error of the PSP"),
		back(1, 0, ok, HoldAnswer, "the paused process comes back with the PSP's answer"),
		back(1, 0, ok, HoldRequest, "the paused process comes back, and its request reaches the PSP only then"),
	}
}

func (d *draw) crashes() []Case {
	everybody := Step{Kind: Await, Intent: All}
	return []Case{
		threePlaces("the database crashes while payments are at the PSP",
			steps(Step{Kind: Crash}),
			steps(Step{Kind: UntilFinal, Intent: All}, Step{Kind: Again, Intent: All, N: 1})),
		{
			Name: "the database crashes under many requests", Intents: many(d.from(6, 12)),
			Steps: steps(Step{Kind: Send, Intent: All, N: 1}, Step{Kind: Crash}, everybody,
				Step{Kind: UntilFinal, Intent: All}, Step{Kind: Again, Intent: All, N: 1}),
		},
	}
}

func many(n int) []Intent {
	tokens := []string{ok, slow, declined}
	var all []Intent
	for i := range n {
		all = append(all, Intent{Token: tokens[i%len(tokens)]})
	}
	return all
}

func (d *draw) webhooks() []Case {
	charged, _ := lost()
	intents := []Intent{{Token: ok}, {Token: declined}, {Token: notCharged}, {Token: late}}
	for _, token := range charged {
		intents = append(intents, Intent{Token: token})
	}
	return []Case{
		{
			Name: "webhooks are repeated, late, out of order and forged", Intents: intents,
			Steps: steps(Step{Kind: Disorder, Group: 1}, Step{Kind: Send, Intent: All, N: 1},
				Step{Kind: Await, Intent: All}, Step{Kind: UntilFinal, Intent: All},
				Step{Kind: Again, Intent: All, N: 1}, Step{Kind: Order, Group: 1}),
		},
		one("the webhook comes before the answer", ok,
			join(held(HoldAnswer, 1, 0, 0), steps(Step{Kind: Reported}, release(1, 0), Step{Kind: Await}), end())...),
		one("a stranger reports a charge that was never made", never,
			Step{Kind: Send, N: 1}, Step{Kind: Await}, Step{Kind: Forge}, Step{Kind: Again, N: d.from(2, 3)}),
	}
}

func (d *draw) tenants() []Case {
	charged, _ := lost()
	pair := func(name, first, second string, steps ...Step) Case {
		return Case{Name: name, Intents: []Intent{{Token: first}, {Tenant: 1, Token: second, SameKey: 1}}, Steps: steps}
	}
	both := func(k Kind, n int) Step { return Step{Kind: k, Intent: All, N: n} }
	turns := steps(Step{Kind: Send, N: 1}, Step{Kind: Await}, Step{Kind: Send, Intent: 1, N: 1}, both(Await, 0),
		both(UntilFinal, 0), both(Again, 1))
	return []Case{
		pair("one key, two tenants, one after the other", ok, ok, turns...),
		pair("one key, two tenants, one is declined", ok, declined, turns...),
		pair("one key, two tenants, at once", ok, ok, both(Send, d.from(1, 3)), both(Await, 0), both(UntilFinal, 0),
			both(Again, 1)),
		pair("one key, two tenants, an answer is lost", charged[d.IntN(len(charged))], ok, turns...),
	}
}

func (d *draw) others() []Case {
	after := func(name string, more ...Step) Case {
		paid := steps(Step{Kind: Send, N: d.from(1, 2)}, Step{Kind: Await}, Step{Kind: UntilFinal})
		return one(name, ok, join(paid, more, end())...)
	}
	return []Case{
		after("a refund in the PSP's dashboard", Step{Kind: RefundElsewhere}, Step{Kind: Shown}),
		after("a refund in the PSP's dashboard fails later", Step{Kind: RefundElsewhere, Group: 1}, Step{Kind: Shown},
			Step{Kind: ComeBack, Group: 1}, Step{Kind: Shown}),
		after("a dispute", Step{Kind: Dispute}, Step{Kind: Shown}, Step{Kind: Overdraw}),
	}
}
