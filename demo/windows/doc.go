// Package windows stops one payment of the demo at a crash window, so that a person can look at it there, and make
// something fail. docs/crash_windows.md numbers the windows.
//
// It stands between the API and PostgreSQL, and between the API and the mock PSP, with the proxies that the crash
// matrix uses. Two more stand around the reconciler. They pass everything on as it is. A window is armed for one key:
// the message of this key is held, and all others pass. There is nothing of this in the product's code, but that its
// processes can be told to wait for longer.
//
//	windows.go     what a window is, all of them, and what can be done at each
//	places.go      where each one is
//	stage.go       arms a window, and says what is held
//	hold.go        what becomes of one payment that is stopped
//	grip.go        the message that is held, and which messages are about a key
//	dialect.go     which call to the PSP is which, in each provider's dialect, and the proxies around one process
//
// # What always holds
//
//   - At most one window is armed or held.
//   - It is let go by itself after a limit, also if nobody comes to it, so the demo never looks broken for long. Before
//     that, nothing but a choice or the end of a process ends it: the lease is made longer, and whatever the reconciler
//     does about the key waits. What the hold was, and how it has ended, is kept until somebody dismisses it.
//   - When the process ends, the message that is held is lost with it, as on a real network. It is not sent later.
package windows
