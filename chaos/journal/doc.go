// Package journal keeps a fault's intents on disk before anything is done, so that what was left by a harness that
// died can be found and undone. A journal is data, never code.
//
// It imports the standard library and chaos/history.
package journal
