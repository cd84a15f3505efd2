package console

import "payonce/internal/deadletters"

// kindView says what the kind of a dead letter means, and how such cases usually end. docs/reconciliation.md has the
// same words.
type kindView struct{ Found, Ends string }

func kindOf(kind deadletters.Kind) kindView {
	switch kind {
	case deadletters.PSPContradicts:
		return kindView{
			Found: "The PSP answered with another amount, currency, reference or key, or says that it knows the key with" +
				" another body.",
			Ends: "Ask the PSP. retry when it has corrected its record; executed when the charge stands and the " +
				"difference was corrected with the merchant (contradicts_completed then follows once: dismiss it).",
		}
	case deadletters.ContradictsCompleted:
		return kindView{
			Found: "Evidence says something else than the client was told; or the PSP's statement has a movement of ours" +
				" under another id or reference than we know (ourPspId).",
			Ends: "The stored answer stays; correct it outside, then dismiss: see " +
				"docs/runbooks/PayonceMoneyMismatch.md.",
		}
	case deadletters.DuplicateMovement:
		return kindView{
			Found: "The PSP has moved money twice for one payment or refund.",
			Ends: "Only if both ids have moved money, refund one at the PSP; then dismiss: see " +
				"docs/runbooks/PayonceMoneyMismatch.md.",
		}
	case deadletters.LookupsExhausted:
		return kindView{
			Found: "The PSP did not answer so many lookups in a row; or the key was lost, and released again, until its " +
				"20th attempt, and the PSP has executed none.",
			Ends: "Retry when it answers again; otherwise ask its support. After 20 attempts: remove the cause (the " +
				"timeline has the answer of each), then not_executed.",
		}
	case deadletters.PSPMemoryOver:
		return kindView{
			Found: "The PSP finds nothing, but may have forgotten the key.",
			Ends:  "Look into the PSP's console or statement, then executed or not_executed.",
		}
	case deadletters.UnknownMovement:
		return kindView{
			Found: "Somebody else has moved money on this account at the PSP: nothing of ours asked for it. If the " +
				"record names a key of a tenant, the key is held.",
			Ends: "Find out who uses the credentials; after a restore, see docs/failover.md. Refund at the PSP and " +
				"dismiss, or retry once the payment is restored or known.",
		}
	case deadletters.UnreadableRecord:
		return kindView{
			Found: "The PSP lists a record that cannot be read, that is longer than 4 MiB, or that is another account's.",
			Ends: "Read it in the evidence, or by its id in the PSP's console; dismiss when it is not ours, retry after" +
				" an update that understands it.",
		}
	case deadletters.ScanFailing:
		return kindView{
			Found: "Twelve runs in a row could not read on in the PSP's list of an account; the scan goes on trying.",
			Ends:  "See docs/runbooks/PayonceLedgerScanBehind.md.",
		}
	case deadletters.OtherAccount:
		return kindView{
			Found: "The PSP names one tenant's payment under another's account.",
			Ends: "A mistake at the PSP, or in the set-up of the accounts: at Stripe, the account of STRIPE_SECRET is " +
				"default, not its acct_…; correct it there, then retry or dismiss.",
		}
	case deadletters.LateAfterExpiry:
		return kindView{
			Found: "A movement was found after its key had expired unexecuted.",
			Ends:  "Ask the merchant whether the order stands; refund if not; dismiss.",
		}
	case deadletters.RefundExceeds:
		return kindView{
			Found: "A refund was found whose share of the payment another refund has taken.",
			Ends:  "More was returned than was charged: clear it with the merchant, then dismiss.",
		}
	case deadletters.MovedOutside:
		return kindView{
			Found: "Somebody else has moved money of a payment at the PSP: a refund in its dashboard, a dispute, a " +
				"reversal of the charge; or the PSP refuses a refund of ours, because money of the payment is " +
				"returned or held already.",
			Ends: "Find out who did it and why, tell the merchant, then dismiss. What was moved bounds the payment's " +
				"refunds, whatever you decide. Another status or amount in the PSP's record is a new case.",
		}
	case deadletters.WebhookUnmatched:
		return kindView{
			Found: "A genuine webhook that we cannot understand.",
			Ends:  "Dismiss if it is not about us; retry after an update that understands it.",
		}
	case deadletters.MissingAtPSP:
		return kindView{
			Found: "A payment of ours succeeded, and no statement of the PSP has it.",
			Ends:  "Ask the PSP by the charge's id; dismiss when it is compensated.",
		}
	case deadletters.JobDiscarded:
		return kindView{
			Found: "A background job failed for good; its last error is in the evidence.",
			Ends:  "Remove the cause, then retry: the job runs again.",
		}
	}
	return kindView{}
}

// leadsTo says what comes after an action on a dead letter of this kind, if something does.
func leadsTo(kind deadletters.Kind, a deadletters.Action) string {
	if kind == deadletters.PSPContradicts && a == deadletters.Executed {
		return "The PSP's record still says something else, so it becomes a contradicts_completed soon after. Dismiss that " +
			"one once the difference is corrected with the merchant."
	}
	return ""
}
