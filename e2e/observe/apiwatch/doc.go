// Package apiwatch records what the API server says: every version of every object that a trial is about.
//
// Its promise: from a resource's first on fact to its off fact, every change that the API server sent is one fact with
// its resourceVersion, in the order of the server; and where changes may be missing, that is a gap on record. It uses
// plain list and watch, since an informer would fold changes together. A server that was restarted has forgotten the
// versions before; etcd has not, and is asked for the list at each of those that were missed, one by one, so that an
// API server that was away is not a gap. It imports client-go, the boot clock and the facts.
package apiwatch
