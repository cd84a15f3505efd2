package mockpsp

// further is a second entry that follows the key's own one at once, under the same key and reference.
type further int

const (
	nothingFurther  further = iota
	furtherMovement         // executed twice
	furtherDecline          // reported as declined, though the money has moved
)

// furtherDraft returns the draft of the second entry, or nil. The draft is taken before the first entry is written,
// so that it holds what was asked for.
func (r *record) furtherDraft() *record {
	does, _ := r.Fault.behaviour()
	if does.further == nothingFurther {
		return nil
	}
	second := *r
	second.Further = true
	return &second
}
