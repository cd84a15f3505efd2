package httpapi

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

func TestMemberOfTheWrongTypeIsToldItsType(t *testing.T) {
	t.Parallel()
	for body, row := range map[string]struct {
		into any
		want string
	}{
		`{"enabled":"true"}`:       {&feedRequest{}, "/enabled must be true or false"},
		`{"eventTypes":"refund"}`:  {&endpointRequest{}, "/eventTypes must be an array of strings"},
		`{"eventTypes":[1]}`:       {&endpointRequest{}, "/eventTypes/0 must be a string"},
		`{"overlapSeconds":"day"}`: {&rotateRequest{}, "/overlapSeconds " + notAnInt},
	} {
		if diff := gocmp.Diff([]string{row.want}, decode([]byte(body), row.into).at()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
}
