package main

import (
	"errors"
	"strconv"
	"strings"

	"payonce/lab/world"
	"payonce/test/httpproxy"
)

// stripeSceneFlow is what takes more than one boundary at Stripe.
func stripeSceneFlow() flow {
	found, again := want{posts: [2]int{1, 1}, replayed: "true"}, want{posts: [2]int{1, 1}, replayed: "false"}
	again2 := want{posts: [2]int{2, 2}, replayed: "false", // the first one comes to an intent that is cancelled
		check: allOfIt((*stage).cancelledAsSaid, (*stage).nothingLeftOpen, noDeadLetter)}
	rows := []row{
		{window: 29, step: "the confirmation lands between the lookup's read and its cancel", noWebhooks: true,
			script: (*stage).confirmBeforeCancel, want: found},
		{window: 3, step: "charged, answer lost, and the PSP forgets the key", noWebhooks: true,
			script: (*stage).chargedAndForgotten, want: found},
		{window: 3, step: "a refund's 500 is saved: the next attempt has another key",
			script: (*stage).savedServerError, want: want{posts: [2]int{3, 3}, replayed: "false"}},
		{window: 3, step: "the owner has given its key back: then its confirmation lands",
			script: (*stage).confirmAfterRelease, want: again2},
		{window: 1, step: "two payments and two refunds: their keys differ in the 255th character",
			script: (*stage).longKeys, want: again},
	}
	for i := range rows {
		if rows[i].want.check == nil {
			rows[i].want.check = noDeadLetter
		}
	}
	return flow{"stripe-scene", "scenes at Stripe", atStripe(rows)}
}

// confirmBeforeCancel: a dead owner's confirmation arrives when the lookup has read the intent as not executed. Stripe
// refuses the cancel, and says that the intent is executed.
func (s *stage) confirmBeforeCancel() error {
	sent := s.api.PSP.On(world.Charge, httpproxy.HoldBefore)
	if err := s.askInBackground(); err != nil {
		return err
	}
	if err := sent.Reached(s.ctx); err != nil {
		return err
	}
	if err := s.dies(); err != nil {
		return err
	}
	var err error
	if s.reconciler, err = s.w.AddReconciler("reconciler-1"); err != nil {
		return err
	}
	cancel := s.reconciler.PSP.On(world.Cancel, httpproxy.HoldBefore)
	if err := s.startVictim(); err != nil {
		return err
	}
	if err := cancel.Reached(s.ctx); err != nil {
		return err
	}
	sent.Release()
	if err := sent.Landed(s.ctx); err != nil {
		return err
	}
	cancel.Release()
	return s.askUntilFinal()
}

// confirmAfterRelease: an owner that lives waits in vain for the answer to its confirmation. It reads the intent, which
// is not executed, cancels it, and gives the key back. The confirmation lands when the next attempt is charged. Stripe
// refuses it, because the intent is cancelled.
func (s *stage) confirmAfterRelease() error {
	if err := s.startReconciler(); err != nil {
		return err
	}
	sent := s.api.PSP.On(world.Charge, httpproxy.HoldBefore)
	if err := s.askInBackground(); err != nil {
		return err
	}
	if err := sent.Reached(s.ctx); err != nil {
		return err
	}
	if err := errors.Join(s.released(), s.awaitBegun(), s.askUntilFinal()); err != nil {
		return err
	}
	sent.Release()
	if err := sent.Landed(s.ctx); err != nil {
		return err
	}
	return s.askUntilFinal()
}

// savedServerError: the first attempt's 500 is saved under its key. The second attempt is answered with it, and sends
// once more under the next key.
func (s *stage) savedServerError() error {
	if err := prepareRefund(s); err != nil {
		return err
	}
	const fails = "pm_500_not_charged" // a token in the reason
	s.asked.request.Body = strings.Replace(s.asked.request.Body, "returned as "+s.asked.key(), fails, 1)
	return s.askUntilFinal()
}

// longKeys: a step's key at Stripe has a suffix, so there is no room for the longest keys. What takes their place must
// not be the same for two payments, or for two refunds.
func (s *stage) longKeys() error {
	short := s.asked.key()
	other := s.payment("other-" + short)
	s.asked.request.Key, other.request.Key = longKey(short, "1"), longKey(short, "2")
	if err := errors.Join(s.startReconciler(), s.askUntilFinal(), s.askFor(other)); err != nil {
		return err
	}
	for i, paid := range []movement{s.asked, other} {
		id, err := s.idOf(paid)
		if err != nil {
			return err
		}
		refund := s.refund(id, short)
		refund.request.Key = longKey(short+"-refund", strconv.Itoa(i))
		if err := s.askFor(refund); err != nil {
			return err
		}
	}
	return nil
}

// longKey is a key of 255 characters that begins and ends as given.
func longKey(begin, end string) string {
	const longest = 255
	return begin + strings.Repeat("x", longest-len(begin)-len(end)) + end
}
