package plan

// DeedKind is what others do at the PSP to payments of ours.
type DeedKind string

// The deeds of others: the merchant's people in the dashboard, customers, and banks.
const (
	RefundElsewhere DeedKind = "refund"    // in the dashboard
	Dispute         DeedKind = "dispute"   // by the payer's bank
	ComeBack        DeedKind = "come-back" // the money of a refund, of ours or of others
	Decide          DeedKind = "decide"    // the next step of a dispute that is open
)

var deedKinds = []weight[DeedKind]{{RefundElsewhere, 5}, {Dispute, 3}, {ComeBack, 2}, {Decide, 4}}

// DeedKinds lists all kinds.
func DeedKinds() []DeedKind { return []DeedKind{RefundElsewhere, Dispute, ComeBack, Decide} }

// Deed is one thing that others do.
type Deed struct {
	Kind  DeedKind
	Share float64 // of the payment; 1 is all that is left of it
	Times int     // at once, or steps of a dispute right after another
	Later bool    // the refund is on its way first, the bank only asks, or it has asked and decides now
	Won   bool    // of a step that leads two ways
	Pick  uint64  // chooses one of those that are there when it comes to that
}

// Deed is the n-th of others. It is the same whenever it is asked for.
func (p Plan) Deed(n int) Deed {
	r := p.stream(deedStream, 0, n)
	d := Deed{Kind: weighted(r, deedKinds), Share: 1, Times: 1, Later: r.IntN(3) == 0, Won: r.IntN(2) == 0,
		Pick: r.Uint64()}
	if r.IntN(3) > 0 {
		d.Share = r.Float64()
	}
	if d.Kind == RefundElsewhere && r.IntN(4) == 0 || d.Kind == Decide && r.IntN(2) == 0 {
		d.Times = 2
	}
	return d
}
