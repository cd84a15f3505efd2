package stripe

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"payonce/demo/mockpsp"
)

// createIntent makes an intent. It moves no money: no intent is confirmed in the same request here.
func (s *Server) createIntent(c *call) (func() (reply, error), error) {
	made, err := parseIntent(c)
	return func() (reply, error) { return s.executeCreate(c, made) }, err
}

func parseIntent(c *call) (*intent, error) {
	p := c.params
	made := &intent{
		Account: c.account, Amount: p.number("amount"), Currency: p.text("currency"), Method: p.text("payment_method"),
		About: p.text("description"), Status: needsMethod, Types: p.texts("payment_method_types"),
		Capture: cmp.Or(p.text("capture_method"), "automatic_async"), Metadata: p.metadata(),
		Redirects: p.text("automatic_payment_methods[allow_redirects]"),
	}
	automatic := p.text("automatic_payment_methods[enabled]")
	// The default is true: docs.stripe.com/changelog/2023-08-16/automatic-payment-methods-enabled-by-default.
	made.Automatic = automatic == "true" || automatic == "" && len(made.Types) == 0
	switch {
	case !p.values.Has("amount"):
		return nil, missing("amount")
	case made.Currency == "":
		return nil, missing("currency")
	case automatic == "" && made.Redirects != "":
		return nil, missing("automatic_payment_methods[enabled]")
	case made.Automatic && len(made.Types) > 0:
		return nil, invalid("payment_method_types", "You may only specify one of these parameters: "+
			"automatic_payment_methods, payment_method_types.")
	}
	if err := checkAmount(made.Amount, made.Currency); err != nil {
		return nil, err
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
	return made, made.allows(made.Method)
}

// allows refuses a payment method of a type that the intent does not have.
func (i *intent) allows(method string) error {
	if kind := methodType(method); method != "" && !i.Automatic && !slices.Contains(i.Types, kind) {
		return invalid("payment_method", "The PaymentMethod provided ("+kind+") is not allowed for this "+
			"PaymentIntent. Please attach a PaymentMethod of one of the following types: "+strings.Join(i.Types, ", ")+".")
	}
	return nil
}

// cards are Stripe's own test methods that are charged, by their brands: docs.stripe.com/testing#cards.
const cards = "pm_card_visa, pm_card_visa_debit, pm_card_mastercard, pm_card_mastercard_debit, " +
	"pm_card_mastercard_prepaid, pm_card_amex, pm_card_discover, pm_card_diners, pm_card_jcb, pm_card_unionpay"

var ownMethod = regexp.MustCompile(`^pm_[0-9A-Za-z]{24}$`)

// checkMethod refuses a payment method that nobody has made. The mock keeps none, so it goes by the form. The status is
// that of a wrong parameter, not of a wrong path (docs.stripe.com/error-codes#resource-missing).
func checkMethod(name, id string) error {
	_, known := faultOf(id)
	if known || ownMethod.MatchString(id) || slices.Contains(strings.Split(cards, ", "), id) {
		return nil
	}
	return invalidCode("resource_missing", name, "No such PaymentMethod: '"+id+"'")
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

// maxAmount is the largest amount of Stripe in any currency: docs.stripe.com/currencies, "Minimum and maximum charge
// amounts".
const maxAmount = 999_999_999_999

// largest is the largest amount in the other currencies than those that have eight digits, and smallest the smallest in
// some of the currencies for which there is one: the same page.
var (
	largest = map[string]int64{"idr": maxAmount, "lbp": 99_999_999_999, "cop": 9_999_999_999, "huf": 9_999_999_999,
		"jpy": 9_999_999_999, "inr": 999_999_999}
	smallest = map[string]int64{"usd": 50, "eur": 50, "aud": 50, "cad": 50, "chf": 50, "sgd": 50, "jpy": 50, "gbp": 30}
)

// checkAmount checks an amount in the minor unit that Stripe has for the currency, which is not ISO's for all of them:
// see docs.stripe.com/currencies, "Special cases".
func checkAmount(amount int64, currency string) error {
	least, most := smallest[currency], cmp.Or(largest[currency], 99_999_999)
	switch {
	case amount < least:
		return invalidCode("amount_too_small", "amount", fmt.Sprintf("Amount must be at least %d %s", least, currency))
	case amount > most:
		return invalidCode("amount_too_large", "amount", fmt.Sprintf("Amount must be no more than %d", most))
	case slices.Contains([]string{"bhd", "jod", "kwd", "omr", "tnd"}, currency) && amount%10 != 0:
		return invalid("amount", "Amounts in "+currency+" must be rounded to the nearest ten.")
	case (currency == "isk" || currency == "ugx") && amount%100 != 0:
		return invalid("amount", "Amounts in "+currency+" have two decimals, which must be zero.")
	}
	return nil
}

// currencies are those in which Stripe takes money: docs.stripe.com/currencies#presentment-currencies.
const currencies = "usd, aed, afn, all, amd, ang, aoa, ars, aud, awg, azn, bam, bbd, bdt, bgn, bhd, bif, bmd, " +
	"bnd, bob, brl, bsd, bwp, byn, bzd, cad, cdf, chf, clp, cny, cop, crc, cve, czk, djf, dkk, dop, dzd, egp, etb, eur, " +
	"fjd, fkp, gbp, gel, gip, gmd, gnf, gtq, gyd, hkd, hnl, htg, huf, idr, ils, inr, isk, jmd, jod, jpy, kes, kgs, khr, " +
	"kmf, krw, kwd, kyd, kzt, lak, lbp, lkr, lrd, lsl, mad, mdl, mga, mkd, mmk, mnt, mop, mur, mvr, mwk, mxn, myr, " +
	"mzn, nad, ngn, nio, nok, npr, nzd, omr, pab, pen, pgk, php, pkr, pln, pyg, qar, ron, rsd, rub, rwf, sar, sbd, " +
	"scr, sek, sgd, shp, sle, sos, srd, std, szl, thb, tjs, tnd, top, try, ttd, twd, tzs, uah, ugx, uyu, uzs, vnd, " +
	"vuv, wst, xaf, xcd, xcg, xof, xpf, yer, zar, zmw"

func checkCurrency(name, value string) error {
	if slices.Contains(strings.Split(currencies, ", "), value) {
		return nil
	}
	return invalid(name, "Invalid currency: "+value+". Stripe currently supports these currencies: "+currencies)
}
