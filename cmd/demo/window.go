package main

import (
	"syscall"
	"time"

	"payonce/demo/controls"
	"payonce/demo/windows"
)

// openWindows puts proxies around the two children, or gives nil. There are none without the page, whose buttons they
// are for, and none before a server that is not ours: it may ask for encryption, which the proxy does not speak.
func openWindows(set settings, at *listeners, d *database) (*windows.Stage, error) {
	if demoPage(at) == "" || d.server == nil {
		return nil, nil
	}
	return windows.Open(windows.Config{
		DatabaseURLs: map[windows.Process]string{
			windows.API: set.api.DatabaseURL, windows.Reconciler: set.reconciler.DatabaseURL,
		},
		PSPAddress: at.spoken().Addr().String(), Dialect: set.dialect(), Dir: d.dir,
		// Nobody else takes the payment over before the end of its lease.
		Limit: set.api.Lease / 2, FarLimit: farLimit * set.api.Lease, Now: time.Now,
	})
}

// farLimit is how many leases a payment may take to a window of the reconciler. The furthest window comes after four
// lookups that fail: 20 s in the demo. After kill -9 of the reconciler, the job queue needs up to 21 s more for the
// election of another leader, which begins all lookups.
const farLimit = 4

// watchWindows makes the children the processes whose payments are stopped.
func watchWindows(stage *windows.Stage, ours *children, page *controls.Controls) {
	handles := map[windows.Process]windows.Handle{}
	for who, c := range map[windows.Process]*child{windows.API: ours.api, windows.Reconciler: ours.reconciler} {
		handles[who] = windows.Handle{
			Kill:   c.kill,
			Pause:  func() error { return c.signal(syscall.SIGSTOP) },
			Resume: func() error { return c.signal(syscall.SIGCONT) },
		}
		c.changed = func() {
			if !c.State().Serves {
				stage.Ended(who)
			}
			page.Changed()
		}
	}
	stage.Attach(handles, windows.Watcher{Changed: page.Changed, Note: page.Note})
}
