package lessons

import (
	"flag"
	"testing"

	"payonce/test/pgtest"
)

//nolint:gochecknoglobals // a flag of the test binary
var update = flag.Bool("update", false, "write into the pages what comes out")

func TestMain(m *testing.M) { pgtest.Main(m) }
