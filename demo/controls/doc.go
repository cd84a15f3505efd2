// Package controls is the demo's page with buttons: it sends payments as a client would, sets the faults of the mock
// PSP, and kills the processes of the demo.
//
// It refuses to know how a process is killed or started. It is for a listener on loopback only, since everybody who
// reaches it may press the buttons.
package controls
