package stripe

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"payonce/demo/mockpsp"
)

// ignoredByIntents are parameters of Stripe that mean nothing here.
func ignoredByIntents() []string {
	return []string{
		"capture_method", "confirmation_method", "customer", "error_on_requires_action", "mandate_data", "off_session",
		"payment_method_options", "radar_options", "receipt_email", "return_url", "setup_future_usage", "shipping",
		"statement_descriptor", "statement_descriptor_suffix", "transfer_group", "use_stripe_sdk",
	}
}

// createIntent makes an intent. It moves no money: no intent is confirmed in the same request here.
func (s *Server) createIntent(c *call) (func() (reply, error), error) {
	made, err := parseIntent(c)
	if err != nil {
		return nil, err
	}
	return func() (reply, error) { return s.executeCreate(c, made) }, nil
}

func parseIntent(c *call) (*intent, error) {
	p := c.params
	made := &intent{
		Account: c.account, Currency: p.text("currency"), Method: p.text("payment_method"),
		About: p.text("description"), Status: needsMethod, Types: p.texts("payment_method_types"),
	}
	if !p.has("amount") {
		p.fail(missing("amount"))
	}
	made.Amount = p.number("amount")
	p.fail(checkCurrency(made.Currency))
	p.fail(checkAmount(made.Amount, made.Currency))
	p.fail(checkMethod(made.Method))
	made.Metadata = p.metadata()
	p.oneOf("confirm", "false")
	made.Automatic = p.flag("automatic_payment_methods[enabled]")
	p.oneOf("automatic_payment_methods[allow_redirects]", "always", "never")
	if made.Automatic && len(made.Types) > 0 {
		p.fail(invalid("payment_method_types", "You may only specify one of these parameters: "+
			"automatic_payment_methods, payment_method_types."))
	}
	if len(made.Types) == 0 {
		made.Types = []string{"card"}
	}
	if kind := methodType(made.Method); !slices.Contains(made.Types, kind) && made.Automatic {
		made.Types = append(made.Types, kind)
	}
	if made.Method != "" {
		made.Status = needsConfirmation
	}
	return made, p.rest(ignoredByIntents()...)
}

// realMethod is the form of Stripe's own payment methods, and of its test tokens for cards.
var realMethod = regexp.MustCompile(`^pm_([0-9A-Za-z]{24}|card_[A-Za-z_]+)$`)

// checkMethod refuses a payment method that nobody has made. The mock keeps none, so it goes by the form. The status is
// that of a wrong parameter, and not that of a wrong path (docs.stripe.com/error-codes#resource-missing).
func checkMethod(method string) error {
	if _, known := faultOf(method); method == "" || known || realMethod.MatchString(method) {
		return nil
	}
	return invalidCode("resource_missing", "payment_method", "No such PaymentMethod: '"+method+"'")
}

func (s *Server) executeCreate(c *call, made *intent) (reply, error) {
	mark := markOf(c.account, methodCreate500, cmp.Or(made.Metadata["reference"], c.asked.key.Key))
	tokenFails := made.Method == methodCreate500 && !s.store.hasMark(mark)
	if tokenFails || s.rates.Hit(rateCreate500Saved) {
		c.note.Fault(methodCreate500)
		w := &work{result: failWith(serverError())}
		if tokenFails {
			w.Mark = mark
		}
		return s.commit(c.asked, w)
	}
	made.ID, made.Secret = newID("pi_"), newID("")
	w := &work{change: change{Intent: made}}
	lost := made.Method == methodCreateLost && !s.store.hasMark(markOf(c.account, methodCreateLost, made.reference()))
	if lost {
		w.Mark = markOf(c.account, methodCreateLost, made.reference())
	}
	w.tell(c.account, "payment_intent.created")
	w.result = succeedWith(made.shown)
	answered, err := s.commit(c.asked, w)
	if err == nil && lost {
		c.note.Fault(methodCreateLost)
		return s.end(c, fault{ending: mockpsp.EndSilence}, answered)
	}
	return answered, err
}

// markOf names a fault that strikes once: for a token and what the caller calls its payment.
func markOf(account, token, reference string) string { return account + " " + token + " " + reference }

// maxAmount is the largest amount of Stripe: eight digits for most currencies, and twelve for some.
const maxAmount = 999_999_999_999

// checkAmount checks an amount in the minor unit that Stripe has for the currency, which is not ISO's for all of them:
// see docs.stripe.com/currencies, "Special cases".
func checkAmount(amount int64, currency string) error {
	switch {
	case amount < 1:
		return invalidCode("parameter_invalid_integer", "amount", "This value must be greater than or equal to 1.")
	case amount < minAmount(currency):
		return invalidCode("amount_too_small", "amount",
			fmt.Sprintf("Amount must be at least %d %s", minAmount(currency), currency))
	case amount > maxAmount:
		return invalidCode("amount_too_large", "amount",
			fmt.Sprintf("Amount must be no more than %d", int64(maxAmount)))
	case isThreeDecimal(currency) && amount%10 != 0:
		return invalid("amount", "Amounts in "+currency+" must be rounded to the nearest ten.")
	case isWholeUnits(currency) && amount%100 != 0:
		return invalid("amount", "Amounts in "+currency+" have two decimals, which must be zero.")
	}
	return nil
}

// minAmount is the smallest amount of a charge, for some of the currencies for which Stripe has a minimum:
// docs.stripe.com/currencies, "Minimum and maximum charge amounts".
func minAmount(currency string) int64 {
	switch currency {
	case "usd", "eur", "aud", "cad", "chf", "sgd", "jpy":
		return 50
	case "gbp":
		return 30
	}
	return 1
}

func checkCurrency(currency string) error {
	if currency == "" {
		return missing("currency")
	}
	ok := len(currency) == 3 && strings.IndexFunc(currency, func(r rune) bool { return r < 'a' || r > 'z' }) < 0
	if !ok {
		return invalid("currency", "Invalid currency: "+currency+". Use a three-letter code in lowercase.")
	}
	return nil
}

// isThreeDecimal is true for currencies with a thousandth as their minor unit, of which the last digit must be zero.
func isThreeDecimal(currency string) bool {
	return slices.Contains([]string{"bhd", "jod", "kwd", "omr", "tnd"}, currency)
}

// isWholeUnits is true for currencies that lost their minor unit, and whose amounts still have two decimals.
func isWholeUnits(currency string) bool { return currency == "isk" || currency == "ugx" }

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
