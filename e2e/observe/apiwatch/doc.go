// Package apiwatch records what the API server says: every version of every object that a trial is about.
//
// Its promise: from a resource's first on fact to its off fact, every change that the API server sent is one fact with
// its resourceVersion, in the order of the server; and where changes may be missing, that is a gap on record. It uses
// plain list and watch, since an informer would fold changes together. It imports client-go, the boot clock and the
// facts.
package apiwatch
