// Package apiwatch records every version of every API object that a trial is about.
//
// Its promise: from a resource's first on fact to its off fact, every change that the API server sent is one fact with
// its resourceVersion, in the order of the server; where changes may be missing, there is a gap on record. It uses
// plain list and watch, since an informer would merge changes. After a restart of the API server it lists the missed
// versions one by one, which etcd still has, so that an outage of the server is not a gap. It imports client-go, the
// boot clock and the facts.
package apiwatch
