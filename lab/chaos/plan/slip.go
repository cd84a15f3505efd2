package plan

// Slip is what a merchant's endpoint does instead of taking an event and saying so at once.
type Slip string

// The slips.
const (
	NoSlip     Slip = ""
	Answer500  Slip = "answers 500"
	Hang       Slip = "hangs"
	CutBefore  Slip = "cuts before reading"
	CutAfter   Slip = "cuts after reading"
	Redirect   Slip = "redirects"
	AnswerLate Slip = "answers slowly" // and has taken the event
	HalfAnswer Slip = "breaks off its answer"
)

// Slips lists all of them.
func Slips() []Slip {
	return []Slip{Answer500, Hang, CutBefore, CutAfter, Redirect, AnswerLate, HalfAnswer}
}

// slipEvery is how many events lie between two slips. After a slip, the endpoint gets nothing for a second.
const slipEvery = 4

// Slip is that of the n-th event that comes to an endpoint. They come in turn, so a short run meets all of them; the
// seed says with which they begin. Once each has come twice, a storm goes on with them, and a calm does not.
func (p Plan) Slip(n int, calm bool) Slip {
	all := Slips()
	if n%slipEvery != 0 || calm && n > 2*slipEvery*len(all) {
		return NoSlip
	}
	return all[(n/slipEvery+p.stream(slipStream, 0, 0).IntN(len(all)))%len(all)]
}
