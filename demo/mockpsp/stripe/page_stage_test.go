package stripe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"payonce/test/golden"
)

const partlyWon = "https://support.stripe.com/questions/" +
	"dispute-for-full-charge-amount-after-a-partial-refund-was-issued"

const differs = `## What Stripe does, and the mock does not

- Evidence of a dispute is more than a text: there are files, and what [Visa's
  rules](https://docs.stripe.com/disputes/api/visa-ce3) ask for. A bank decides in weeks, and a dispute that nobody
  answers until ` + "`due_by`" + ` is lost. Here, the text or somebody at the door decides.
- The fee of a dispute depends on country and currency, and [answering
  costs](https://support.stripe.com/questions/dispute-fees-faq), too. Here it is 1500 of any currency.
- A lost dispute [gives a part
  back](` + partlyWon + `)
  if a refund was made before. Here it takes all of its amount.
- A refund of the whole charge [ends an inquiry](https://docs.stripe.com/disputes/how-disputes-work).
- A charge can be disputed whole after a refund of a part. Here, a dispute is about no more than is left.
- A dispute can be ` + "`prevented`, and a refund `canceled`, or `pending`" + ` because the balance is
  [too low](https://docs.stripe.com/changelog/basil/2025-04-30/refund-pending-reason).
- A bank debit can come back after it succeeded, by a ` + "`payment_failure_refund`" + `.
- There are events of payouts, and payouts fail.

`

// docs/mock_stripe.md is made of the tables that requests are checked by. With -update, it is written.
func TestThePageIsWhatTheMockDoes(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`# What the mock of Stripe does

The mock PSP speaks a part of Stripe's API: for the demo, for the tests, and for anybody who wants to see a program fail
in all the ways below. This page is made of its code: ` + "`go test ./demo/mockpsp/stripe -run ThePage -update`" + `.

**What is not here is refused**, in the form of Stripe's errors, and before anything happens. ` +
		"`error.param`" + ` names the
parameter. So a test that passes here has not passed because something was ignored. Stripe's own libraries take a tour
of it, unmodified: ` + "`make sdks`" + `.

An intent is confirmed by a request of its own: ` +
		"`confirm: true`" + ` at its creation is refused. Nothing is captured
later, and there are no customers.

- **Versions.** A ` + "`Stripe-Version`" + ` of one of the release trains basil, clover, dahlia and endive: what the
  mock shows is the same in all of them. Events have the account's version, as Stripe's have:
  ` + "`MOCKPSP_STRIPE_API_VERSION`" + `,
  by default ` + "`" + apiVersion + "`" + `. Libraries refuse the events of another train than theirs.
- **Keys** are remembered for 24 hours, results with status 500 too. Accounts are ` +
		"`acct_…`" + `, by ` + "`Stripe-Account`" + `.
- **Events** are sent for payment intents, charges, refunds and disputes, and signed.
- **Disputes.** A charge that a dispute holds or has taken is not refunded, in whole or in part. After a won dispute,
  it can be.
- **What others do** has doors on the port of the mock, and buttons on its page: ` + "`POST /_refunds`" + `,
  ` + "`/_refunds/{id}/fail`, `/_disputes` and `/_disputes/{id}`" + `. The id of a payment
  intent stands for that of its charge.

`)
	for _, e := range endpoints() {
		fmt.Fprintf(&b, "## `%s`\n\nIt %s.\n\n| parameter | what is taken |\n|---|---|\n", e.route, e.does)
		for _, name := range slices.Sorted(maps.Keys(e.takes)) {
			fmt.Fprintf(&b, "| `%s` | %s |\n", name, e.takes[name].says)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n\n", expandMember, expansion(e.shows).says)
	}
	b.WriteString(differs)
	b.WriteString("## Payment methods\n\nIds of Stripe's form are charged. `pm_card_visa_chargeDeclined` is the same " +
		"as\n`pm_card_chargeDeclined`, with each ending.\n\n| payment method | what happens |\n|---|---|\n")
	for card := range strings.SplitSeq(cards, ", ") {
		fmt.Fprintf(&b, "| `%s` | charged |\n", card)
	}
	for _, name := range slices.Sorted(maps.Keys(declines)) {
		fmt.Fprintf(&b, "| `pm_card_chargeDeclined%s` | declined: `%s`, `%s` |\n", name, declines[name].Code,
			declines[name].Decline)
	}
	for _, token := range Tokens() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", token.Name, token.Means)
	}
	b.WriteString("\n## Currencies\n\n")
	for line := range slices.Chunk(strings.Split(currencies, ", "), 24) {
		b.WriteString(strings.ToUpper(strings.Join(line, " ")) + "\n")
	}
	golden.File(t, "../../../docs/mock_stripe.md", b.String())
}
