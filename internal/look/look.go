// Package look is how every page of Payonce looks: one stylesheet for the public pages, the console, the demo's page
// and the mock PSP's page, and one script for the pages that change while one looks.
//
// It owns the colours, the type, the spaces and the classes. It refuses to know any page, any request and any other
// package, so that also leaves may import it.
//
// Invariants: the style is fixed when the program is built; it loads nothing, from this server or another; each text
// has a contrast of 4.5 or more with what it stands on, in light and in dark.
package look

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
)

//go:embed base.css
var base string

//go:embed style.css
var parts string

//go:embed live.js
var script string

// Script keeps the live parts of a page up to date. Its head says how.
func Script() string { return script }

// Base is the part of the style for a page whose contents bring a style of their own: the colours, the text, the header
// and the focus.
func Base() string { return base }

// Style is the whole stylesheet. A page has it in one style element, with nothing before or after it.
func Style() string { return base + parts }

// StyleSource is what a Content-Security-Policy names in style-src to allow that element, and no other style.
func StyleSource() string {
	hash := sha256.Sum256([]byte(Style()))
	return "'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'"
}
