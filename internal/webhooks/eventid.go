package webhooks

import "strings"

// defaultPSP is the PSP whose events are stored under the ids that it gives them. It was the only one at first.
const defaultPSP = "native"

// separator is between the name of a PSP and the id of its event. The ids of the default PSP have no full stop, which
// Standard Webhooks uses between the parts that are signed.
const separator = "."

// EventID is the id under which an event is stored. It has the name of the PSP, so that two PSPs never share an id, and
// so that the event is read in the dialect of the PSP that has signed it.
func EventID(psp, id string) string {
	if psp == defaultPSP {
		return id
	}
	return psp + separator + id
}

// PSPOf is the name of the PSP that has sent the event with this id.
func PSPOf(eventID string) string {
	if psp, _, found := strings.Cut(eventID, separator); found {
		return psp
	}
	return defaultPSP
}
