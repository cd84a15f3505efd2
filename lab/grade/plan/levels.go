package plan

import "math/rand/v2"

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
		one("the answer is lost, and the PSP forgets the key", forgottenKey,
			join(steps(Step{Kind: Send, N: 1}, Step{Kind: Await}), end())...),
		one("the request is a long time on its way", ok,
			join(held(HoldRequest, 1, 0, 0), steps(Step{Kind: Await}, Step{Kind: Again, N: 2}, release(1, 0)),
				end())...),
	}
}
