package plan

// Odd are the faults of a PSP that does something else than it was asked for, or writes what is hard to read. A
// forgotten key is not among them: a PSP may forget. Nor is pm_huge_member: each list that has one is asked for in many
// small pages, and a scan of the run would not come to its end.
func Odd() []string {
	return []string{
		"pm_wrong_currency", "pm_wrong_reference", "pm_no_reference", "pm_wrong_key", "pm_wrong_account",
		"pm_wrong_charge", "pm_wrong_id",
		"pm_charged_twice", "pm_decline_after_charge", "pm_decline_after_wrong_amount",
		"pm_duplicate_member", "pm_invalid_utf8", "pm_large_metadata", "pm_unknown_status",
	}
}

// oddEvery is how often an errand of a client pays with one of them.
const oddEvery = 15

// oddMethod is that of a client's n-th errand, if it is its turn. They come in order, and each client begins with
// another one, so that a short run meets all of them.
func oddMethod(client, n int) (method string, is bool) {
	turn := n + client
	if turn%oddEvery != 0 {
		return "", false
	}
	all := Odd()
	return all[(turn/oddEvery+client)%len(all)], true
}
