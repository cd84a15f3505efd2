package main

import (
	"syscall"
	"time"

	"payonce/demo/controls"
	"payonce/demo/windows"
)

// openWindows puts proxies around the API's child, or gives nil. There are none without the page, whose buttons they
// are for, and none before a server that is not ours: it may ask for encryption, which the proxy does not speak.
func openWindows(set settings, at *listeners, d *database) (*windows.Stage, error) {
	if demoPage(at) == "" || d.server == nil {
		return nil, nil
	}
	return windows.Open(windows.Config{
		DatabaseURL: set.api.DatabaseURL, PSPAddress: at.psp.Addr().String(), Dir: d.dir,
		// Nobody else takes the payment over before the end of its lease.
		Limit: set.api.Lease / 2, Now: time.Now,
	})
}

// watchWindows makes the API's child the process whose payments are stopped.
func watchWindows(stage *windows.Stage, api *child, page *controls.Controls) {
	stage.Attach(windows.API{
		Kill:   api.kill,
		Pause:  func() error { return api.signal(syscall.SIGSTOP) },
		Resume: func() error { return api.signal(syscall.SIGCONT) },
	}, windows.Watcher{Changed: page.Changed, Note: page.Note})
	api.changed = func() {
		if !api.State().Serves {
			stage.APIEnded()
		}
		page.Changed()
	}
}
