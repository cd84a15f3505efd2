package mockpsp

// meanings says on the page what each random fault does, by rateName.
var meanings = map[string]string{
	"timeout_charged":     "charged, never answered",
	"timeout_not_charged": "never answered, not charged",
	"500_charged":         "a 500 after charging",
	"500_not_charged":     "a 500 before charging",
	"reset_charged":       "charged, connection reset",
	"late_charge":         "connection closed at once, charged some seconds later",
	"declined":            "refused: insufficient_funds",
	"slow":                "charged after a pause",
	"wrong_amount":        "another amount is charged",
	"silent_charged":      "charged, never answered, no webhook",
	"stuck":               "charged, never answered, no webhook, lookups fail",

	"wrong_currency":  "another currency is charged",
	"wrong_reference": "charged under the reference of another movement",
	"no_reference":    "charged without a reference",
	"wrong_key":       "charged under the key of another movement",
	"wrong_account":   "charged in another account",
	"wrong_charge":    "another charge is refunded; a charge names another one",
	"wrong_id":        "charged, and answered with the id of another movement",

	"charged_twice":              "charged twice under one key",
	"decline_after_charge":       "charged, and then reported as declined under the same key",
	"decline_after_wrong_amount": "another amount is charged, and what was asked for is reported as declined",
	"forgotten_key":              "charged, connection closed, and the key is forgotten: a repeat is charged again",

	"duplicate_member": "charged; in answers and lists the status is there twice, with opposite values",
	"invalid_utf8":     "charged; in answers and lists a text is not UTF-8",
	"huge_member":      "charged; in answers and lists a text has 1 MiB",
	"large_metadata":   "charged; in answers and lists the metadata have 27 KiB",
	"unknown_status":   "charged; in answers and lists the status is captured",
}
