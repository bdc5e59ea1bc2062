/*
 * The inbound cutover and its rollback, for spin: every interleaving of a worker, an Event executor, operators who go
 * forward, roll back, reconcile and abandon, and an admission, with a crash between any two steps.
 *
 * One pack and up to two logical works: an Event, and its WorkItem once there is one. As in replay.pml, a transaction
 * holds its row locks until it ends and shows its writes at its commit; a plain read sees what is committed; a crash
 * drops the locks and the writes. Time is anybody's: a lease or a claim may be over at any moment.
 *
 * Whoever may do nothing now waits, instead of asking again and again, so that a work that nobody will ever end is a
 * state in which everybody waits: spin calls it an invalid end state. This is how liveness is asked.
 *
 * A guard is taken away by defining NO_<guard>; batteries/r7_cutovers.py lists them, and each must then be missed.
 */

mtype = { pending, processing, retry, succeeded, dead, failed, processed, awaiting_legacy_outcome, reconciled_legacy_terminal, legacy_outcome_unknown };
mtype = { none, open, sealed, closed };

#ifndef WORKS
#define WORKS 1
#endif
#ifndef OPERATORS
#define OPERATORS 1
#endif
/* What each operator tries, in any order, before he only puts in order what stands half done. */
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#define MOST_ATTEMPTS 2
/* The rows of the claim processes: a process that starts anew has a new row, and nobody asks for its old one. */
#define WORKER 0
#define EXECUTOR 1
#define FREE 0
#define HELD 1
#define SEIZED 2

typedef Event { bit exists; mtype status; bit is_owned_by_item; byte claim; byte tries; byte outcome; bit is_projected }
/* `called`: an attempt of it may have done something. */
typedef Item { bit exists; mtype state; byte attempt; byte lease; bit called; byte fence }

Event EV[WORKS];
Item WI[WORKS];
/* Receipts alternate: none yet, odd ones forward, even ones back. */
byte generation;
mtype fence;                /* the newest rollback fence's state, and its number */
byte fence_number;
byte sealed_set;
byte lease;                 /* the executor's scheduler lease */
bit is_row[2], ended[2];
byte observed[2];
byte admitted;              /* how many works there are */

byte namespace_lock, pack_lock, row_lock[2], event_lock[WORKS], item_lock[WORKS], lease_lock;

/* What nobody stores: the effects of a WorkItem's flow, and how often a work was completed. */
bit effect[WORKS];
byte completed[WORKS];
bit is_stopped;             /* a cutover has stopped the claims of Events */
byte crashes;
hidden byte k, n;

#define STATEMENT(name) printf(#name); printf(" ")
#define MOVE(w, name, source, target) assert(WI[w].state == source); WI[w].state = target; printf(#name); printf(" ")
#define FAILPOINT(name) \
    if \
    :: crashes < CRASHES -> crashes++; goto crashed \
    :: true \
    fi
#define LOCK(row) (row == 0 || row == _pid) -> row = _pid

#define IS_FORWARD (generation % 2 == 1)
#define IS_ENDED_EVENT(w) (EV[w].status == processed || EV[w].status == dead)
#define IS_DUE_EVENT(w) (EV[w].exists && (EV[w].status == pending || EV[w].status == failed))
#define IS_ENDED_ITEM(w) \
    (WI[w].state == succeeded || WI[w].state == dead || WI[w].state == reconciled_legacy_terminal)
#define IS_WAITING(w) (WI[w].exists && (WI[w].state == pending || WI[w].state == retry))
#define IS_RUNNING(w) (WI[w].exists && WI[w].state == processing)
#define IS_HELD(w) (WI[w].exists && WI[w].fence == fence_number)
#define IS_OVER(w) (EV[w].exists && (WI[w].exists -> IS_ENDED_ITEM(w) : IS_ENDED_EVENT(w)))
/* What the executor lists and is not held back from. */
#define IS_LISTED(w) (IS_DUE_EVENT(w) && !IS_ITEMS(w) && !IS_HELD_BACK(w, fence_number * (generation > 0)))
#define IS_CLAIMED(w) (EV[w].claim != 0)
#if WORKS == 1
#define ANY(what) (what(0))
#define ALL(what) (what(0))
#else
#define ANY(what) (what(0) || what(1))
#define ALL(what) (what(0) && what(1))
#endif
#define IS_ALL_OVER (ALL(IS_OVER))
#define IS_IN_ORDER (fence != open && fence != sealed && lease != SEIZED)

inline release() {
    d_step {
        if :: namespace_lock == _pid -> namespace_lock = 0 :: else fi;
        if :: pack_lock == _pid -> pack_lock = 0 :: else fi;
        if :: lease_lock == _pid -> lease_lock = 0 :: else fi;
        for (k : 0 .. 1) { if :: row_lock[k] == _pid -> row_lock[k] = 0 :: else fi };
        for (k : 0 .. WORKS - 1) {
            if :: event_lock[k] == _pid -> event_lock[k] = 0 :: else fi;
            if :: item_lock[k] == _pid -> item_lock[k] = 0 :: else fi
        };
        k = 0
    }
}

/* What must hold of committed rows, asked after every commit. */
inline check() {
    d_step {
        n = 0;
        for (k : 0 .. WORKS - 1) {
            /* Never two live claims of one work, and none of the one who does not own the pack (contract 11.1). */
            assert(!(WI[k].lease && EV[k].claim));
            assert(!(IS_FORWARD && EV[k].claim));
            assert(!(!IS_FORWARD && WI[k].lease));
            /* Each work is completed once, whoever owned the pack when. */
            assert(completed[k] <= 1);
            /* Nothing corrupts receipts here: nobody ever has to doubt one. */
            assert(WI[k].state != legacy_outcome_unknown);
            assert(!(WI[k].state == awaiting_legacy_outcome && IS_ENDED_EVENT(k) && !EV[k].outcome));
            assert(!(WI[k].state == reconciled_legacy_terminal && !(IS_ENDED_EVENT(k) && EV[k].outcome == WI[k].fence)));
            if :: IS_HELD(k) -> n = n | (1 << k) :: else fi;
            /* What went over is held by a fence that is not closed. */
            assert(!(WI[k].state == awaiting_legacy_outcome && (WI[k].fence != fence_number || fence == closed)))
        };
        /* The set that the receipt binds is the set of rows that were fenced. */
        assert(!(fence == sealed && n != sealed_set));
        k = 0; n = 0
    }
}

#ifdef NO_ROW_LOCK
#define LOCK_ROW(row) skip
#define IS_ROW_LOCKED(row) true
#else
#define LOCK_ROW(row) LOCK(row_lock[row])
#define IS_ROW_LOCKED(row) (row_lock[row] == _pid)
#endif

/* Ends the right to claim of the rows from one on that are locked, at the commit. */
inline evict(first) {
#ifndef NO_EVICTION
    for (k : first .. EXECUTOR) { if :: is_row[k] && IS_ROW_LOCKED(k) -> ended[k] = 1 :: else fi };
    k = 0
#else
    skip
#endif
}

/* What each guard asks; without it, what is left of the question. `seen` and `observed` are a row's own receipt. */
#ifdef NO_EVICTED
#define IS_OUT(row) false
#else
#define IS_OUT(row) (ended[row])
#endif
#ifdef NO_OBSERVED
#define IS_STALE(row, owner) false
#else
#define IS_STALE(row, owner) (observed[row] != generation || generation % 2 != owner)
#endif
#ifdef NO_FORWARD_LOOK
#define IS_OTHERS(owner) false
#else
#define IS_OTHERS(owner) (generation % 2 != owner)
#endif
#ifdef NO_ROLLBACK_LOOK
#define IS_ROLLING_BACK false
#else
#define IS_ROLLING_BACK (fence == open)
#endif
#ifdef NO_SEIZED_LOOK
#define IS_SEIZED_LOOK false
#else
#define IS_SEIZED_LOOK (lease == SEIZED)
#endif
#ifdef NO_SEIZURE
#define IS_LEASE_TAKEN false
#define IS_LEASE_LOST false
#else
#define IS_LEASE_LOST (lease != HELD)
#define IS_LEASE_TAKEN (lease == SEIZED)
#endif
#ifdef NO_OWNER
#define IS_ITEMS(w) false
#else
#define IS_ITEMS(w) (EV[w].is_owned_by_item)
#endif
#ifdef NO_HOLD
#define IS_HELD_BACK(w, by) false
#else
#define IS_HELD_BACK(w, by) \
    (WI[w].exists && !(by && WI[w].state == awaiting_legacy_outcome && WI[w].fence == by) && \
     (WI[w].attempt || WI[w].lease || WI[w].state != pending))
#endif
#ifdef NO_ONE_STATEMENT
#define IS_ANSWERED(w) (EV[w].outcome != 0)
#define IS_ENDED_LATER(w) IS_ENDED_EVENT(w)
#elif defined(NO_ENDED_EVENT)
#define IS_ANSWERED(w) (EV[w].outcome != 0)
#define IS_ENDED_LATER(w) true
#else
#define IS_ANSWERED(w) (EV[w].outcome != 0 || !IS_ENDED_EVENT(w))
#define IS_ENDED_LATER(w) true
#endif
#ifdef NO_GIVEN_BACK
#define IS_TO_GIVE_BACK false
#else
#define IS_TO_GIVE_BACK (ANY(IS_HELD))
#endif
#ifdef NO_SEALED_LOOK
#define IS_SEALED_OR_OVER (fence != open && fence != sealed)
#else
#define IS_SEALED_OR_OVER (fence != open)
#endif
#ifdef NO_MATERIALIZED
#define IS_UNCOVERED false
#else
#define IS_UNCOVERED (ANY(IS_WITHOUT_WORK))
#endif
#ifdef NO_COVERED
#define IS_COVERED(w) false
#else
#define IS_COVERED(w) (WI[w].exists)
#endif
#ifdef NO_DRAIN
#define IS_DRAINING false
#else
#define IS_DRAINING (ANY(IS_CLAIMED))
#endif
#ifdef NO_IN_HAND
#define IS_IN_HAND false
#else
#define IS_IN_HAND (ANY(IS_RUNNING))
#endif
#ifdef NO_SURVEY
#define IS_SURVEYED true
#else
#define IS_SURVEYED (!ANY(IS_RUNNING) && !ANY(IS_CALLED))
#endif
#ifdef NO_HISTORY
#define WAS_CALLED(w) false
#else
#define WAS_CALLED(w) (WI[w].called)
#endif
#ifdef NO_OUTSIDE
#define IS_OUTSIDE(w, but) false
#else
#define IS_OUTSIDE(w, but) (IS_UNFINISHED(w) && !(is_there && but == w))
#endif
#ifdef NO_ONE_RECEIPT
#define IS_DONE(condition) false
#else
#define IS_DONE(condition) (condition)
#endif

/* A worker with its reaper: registers a row that fences its claims, claims under it, ends what it claimed. */
proctype Worker() {
    byte w, token, seen;
    bit is_known;

again:
    atomic {
        w = 0; token = 0; seen = 0;
        if
        :: (ANY(IS_WAITING) || ANY(IS_RUNNING)) && (is_known || !(IS_OTHERS(1) || IS_ROLLING_BACK))
        :: IS_ALL_OVER -> goto over
        fi
    };
    if
    :: !is_known ->
#ifndef NO_REGISTER_LOCK
        atomic { STATEMENT(LOCK_PACK); LOCK(pack_lock) };
#endif
        atomic {
            STATEMENT(NEWEST_CUTOVER_RECEIPT); STATEMENT(FIND_UNCLOSED_FENCE);
            seen = generation;
            if :: IS_OTHERS(1) || IS_ROLLING_BACK -> release(); goto again :: else fi
        };
        atomic {
            STATEMENT(INSERT_PROCESS);
            is_row[WORKER] = 1; ended[WORKER] = 0; observed[WORKER] = seen; is_known = 1;
            release()
        }
    :: else
    fi;
    atomic {
        /* A plain read of what may be claimed or taken back. */
        if
        :: IS_WAITING(0) || IS_RUNNING(0) -> w = 0
#if WORKS > 1
        :: IS_WAITING(1) || IS_RUNNING(1) -> w = 1
#endif
        :: else -> goto again
        fi;
        FAILPOINT(claim.before)
    };
    atomic { STATEMENT(LOCK_PROCESS); LOCK_ROW(WORKER) };
    atomic {
        STATEMENT(NEWEST_CUTOVER_RECEIPT);
        if
        :: IS_OUT(WORKER) || IS_STALE(WORKER, 1) -> release(); is_known = 0; goto again
        :: else
        fi
    };
    if
    :: WI[w].state == pending ->
        atomic { STATEMENT(LOCK_EVENTS_FOR_CLAIM); LOCK(event_lock[w]) };
        atomic {
            STATEMENT(FIRST_CLAIM);
            LOCK(item_lock[w]);
            if
            :: WI[w].state == pending && WI[w].attempt == 0 && !WI[w].lease && !WI[w].fence &&
               !EV[w].is_owned_by_item && IS_DUE_EVENT(w) && !EV[w].claim ->
                MOVE(w, claim, pending, processing); EV[w].is_owned_by_item = 1
            :: else -> release(); goto again
            fi;
            goto claimed
        }
    :: WI[w].state == retry ->
        atomic {
            STATEMENT(LATER_CLAIM);
            LOCK(item_lock[w]);
            if
            :: WI[w].state == retry && !WI[w].lease && !WI[w].fence -> MOVE(w, claim, retry, processing)
            :: else -> release(); goto again
            fi;
            goto claimed
        }
    :: WI[w].state == processing ->
        /* The reaper: the token is the one that was read with the lease. */
        atomic {
            LOCK(item_lock[w]);
            if
            :: WI[w].state == processing && WI[w].attempt < MOST_ATTEMPTS ->
                STATEMENT(REAP_WORK_ITEM); MOVE(w, reap, processing, retry)
            :: WI[w].state == processing && WI[w].attempt >= MOST_ATTEMPTS ->
                STATEMENT(REAP_EXHAUSTED_WORK_ITEM); MOVE(w, reap_exhausted, processing, dead); completed[w]++
            :: else -> release(); goto again
            fi;
            WI[w].lease = 0; WI[w].called = 1;
            /* Nothing is taken back while a rollback has stopped claims. */
            assert(IS_FORWARD && fence != open);
            check(); release();
            goto again
        }
    :: else -> atomic { release(); goto again }
    fi;
claimed:
    atomic {
        WI[w].attempt++; WI[w].lease = WI[w].attempt; token = WI[w].attempt;
        /* Under the receipt that is the pack's, observed before, and never while a rollback stops claims. */
        assert(IS_FORWARD && fence != open && observed[WORKER] == generation);
        check(); release();
        FAILPOINT(claim.after_commit)
    };
    atomic {
        if
        :: WI[w].attempt < MOST_ATTEMPTS ->
            STATEMENT(RELEASE_WORK_ITEM); LOCK(item_lock[w]);
            MOVE(w, release, processing, retry); WI[w].lease = 0;
            check(); release(); goto again
        :: true -> effect[w] = 1
        fi;
        FAILPOINT(finish.before)
    };
    atomic {
        LOCK(item_lock[w]);
        /* Token and epoch are its own: nobody else takes a lease back here. */
        assert(WI[w].lease == token);
        if
        :: true ->
            STATEMENT(COMPLETE_WORK_ITEM); MOVE(w, complete, processing, succeeded); completed[w]++; WI[w].lease = 0
        :: WI[w].attempt < MOST_ATTEMPTS ->
            STATEMENT(RETRY_WORK_ITEM); MOVE(w, retry, processing, retry); WI[w].lease = 0; WI[w].called = 1
        fi;
        check(); release();
        FAILPOINT(finish.after_commit);
        goto again
    };
crashed:
    atomic { release(); is_known = 0; goto again };
over:
    skip
}

/* In the transaction that ends the Event: its mirror follows, and under a rollback it leaves its outcome. */
inline converge_and_tell() {
    if
    :: WI[w].exists && WI[w].attempt == 0 && WI[w].state == pending ->
        if
        :: EV[w].status == dead -> STATEMENT(CONVERGE_DEAD); MOVE(w, converge_dead, pending, dead)
        :: else -> STATEMENT(CONVERGE_PROCESSED); MOVE(w, converge_processed, pending, succeeded)
        fi
    :: else
    fi;
    if :: held_by -> STATEMENT(RECORD_LEGACY_OUTCOME); EV[w].outcome = held_by :: else fi
}

/* The Event executor of a rolled-back pack, or of one before its first cutover. */
proctype Executor() {
    byte w, token, held_by;
    bit is_known;
    mtype status;

again:
    atomic {
        w = 0; token = 0; status = 0;
        if
        :: (ANY(IS_LISTED) || ANY(IS_CLAIMED)) && (is_known || !(IS_OTHERS(0) || IS_SEIZED_LOOK))
        :: IS_ALL_OVER -> goto over
        fi
    };
    if
    :: !is_known ->
#ifndef NO_REGISTER_LOCK
        atomic { STATEMENT(LOCK_PACK); LOCK(pack_lock) };
#endif
        atomic {
            STATEMENT(NEWEST_CUTOVER_RECEIPT); STATEMENT(FIND_SCHEDULER_LEASE);
            token = generation;
            if :: IS_OTHERS(0) || IS_SEIZED_LOOK -> release(); goto again :: else fi;
            /* Of a rolled-back pack only a build that leaves outcomes is admitted. */
            held_by = (generation > 0 -> fence_number : 0)
#ifdef NO_BRIDGE
            ; held_by = 0
#endif
        };
        atomic {
            STATEMENT(INSERT_EVENT_PROCESS);
            is_row[EXECUTOR] = 1; ended[EXECUTOR] = 0; observed[EXECUTOR] = token; is_known = 1;
            release()
        }
    :: else
    fi;
    atomic {
        STATEMENT(ACQUIRE_SCHEDULER_LEASE);
        LOCK(lease_lock);
        if :: IS_LEASE_TAKEN -> skip :: else -> lease = HELD fi;
        release()
    };
    atomic {
        /* LIST_DUE_EVENTS, LIST_EXPIRED_EVENT_CLAIMS: plain reads. */
        if
        :: IS_LISTED(0) || IS_CLAIMED(0) -> w = 0
#if WORKS > 1
        :: IS_LISTED(1) || IS_CLAIMED(1) -> w = 1
#endif
        :: else -> goto again
        fi;
        token = EV[w].claim;
        FAILPOINT(legacy_claim.before)
    };
    atomic { STATEMENT(LOCK_PROCESS); LOCK_ROW(EXECUTOR) };
    atomic {
        STATEMENT(NEWEST_CUTOVER_RECEIPT);
        if
        :: IS_OUT(EXECUTOR) || IS_STALE(EXECUTOR, 0) -> release(); is_known = 0; goto again
        :: else
        fi
    };
    atomic { STATEMENT(LOCK_EVENT_OF_EXECUTOR); LOCK(event_lock[w]) };
    atomic { STATEMENT(LOCK_FENCED_MIRRORS); LOCK(item_lock[w]) };
    atomic {
        STATEMENT(LOCK_SCHEDULER_LEASE);
        LOCK(lease_lock);
        if :: IS_LEASE_LOST -> release(); is_known = 0; goto again :: else fi;
        FAILPOINT(legacy_claim.before_swap);
        FAILPOINT(legacy_claim.before_commit)
    };
    if
    :: token ->
        /* What a lost executor holds, by the token that was read. */
        atomic {
            if
            :: EV[w].claim != token -> release(); goto again
            :: EV[w].claim == token && EV[w].tries + 1 < MOST_ATTEMPTS ->
                STATEMENT(RECLAIM_EVENT); EV[w].status = failed
            :: EV[w].claim == token && EV[w].tries + 1 >= MOST_ATTEMPTS ->
                STATEMENT(RECLAIM_EXHAUSTED_EVENT); EV[w].status = dead; completed[w]++;
                converge_and_tell()
            fi;
            EV[w].claim = 0; EV[w].tries++;
            check(); release();
            goto again
        }
    :: else
    fi;
    atomic {
        STATEMENT(CLAIM_EVENT);
        if
        :: !IS_DUE_EVENT(w) || EV[w].claim || IS_ITEMS(w) || IS_HELD_BACK(w, held_by) -> release(); goto again
        :: else
        fi;
        EV[w].status = processing; EV[w].claim = EV[w].tries + 1; token = EV[w].claim;
        /* Neither after a forward receipt, nor while a cutover drains, nor of what a WorkItem's flow has begun. */
        assert(!IS_FORWARD && !is_stopped && observed[EXECUTOR] == generation);
        assert(!effect[w]);
        check(); release();
        FAILPOINT(legacy_claim.after_commit)
    };
    atomic {
        FAILPOINT(legacy_end.before);
        LOCK(event_lock[w]);
        if
#ifdef NO_TOKEN
        :: EV[w].claim != token -> completed[w]++; check(); release(); goto again
#else
        :: EV[w].claim != token -> release(); goto again
#endif
        :: EV[w].claim == token -> STATEMENT(END_EVENT); status = processed
        :: EV[w].claim == token && EV[w].tries + 1 < MOST_ATTEMPTS ->
            STATEMENT(FAIL_EVENT);
            EV[w].status = failed; EV[w].claim = 0; EV[w].tries++;
            check(); release(); goto again
        fi;
        FAILPOINT(legacy_end.after_event)
    };
    atomic { STATEMENT(LOCK_RANGED_MIRRORS); LOCK(item_lock[w]); FAILPOINT(legacy_end.after_mirror); FAILPOINT(legacy_end.after_receipt) };
#ifdef NO_OUTCOME_TRANSACTION
    atomic { EV[w].status = status; EV[w].claim = 0; completed[w]++; check(); release(); FAILPOINT(legacy_end.before_commit) };
    atomic { LOCK(event_lock[w]); LOCK(item_lock[w]); converge_and_tell(); check(); release(); goto again };
#else
    FAILPOINT(legacy_end.before_commit);
    atomic {
        EV[w].status = status; EV[w].claim = 0; completed[w]++;
        converge_and_tell();
        check(); release();
        FAILPOINT(legacy_end.after_commit);
        goto again
    };
#endif
crashed:
    atomic { release(); is_known = 0; goto again };
over:
    skip
}

/* Waits for the claims in flight of the rows from one on. */
inline lock_rows(first) {
    atomic {
        STATEMENT(LOCK_PROCESSES);
        if :: is_row[EXECUTOR] && !ended[EXECUTOR] -> LOCK_ROW(EXECUTOR) :: else fi;
        if :: first == WORKER && is_row[WORKER] && !ended[WORKER] -> LOCK_ROW(WORKER) :: else fi;
        FAILPOINT(cutover.before_evict)
    }
}

#define MOVE_WAITING(w) \
    if \
    :: WI[w].state == pending -> MOVE(w, fence, pending, awaiting_legacy_outcome) \
    :: else -> MOVE(w, fence, retry, awaiting_legacy_outcome) \
    fi

inline lock_pack_of_cutover() {
    atomic { STATEMENT(LOCK_NAMESPACE); LOCK(namespace_lock); STATEMENT(LOCK_PACK); LOCK(pack_lock) }
}

/* What a status tells an operator. */
#define IS_CALLED(w) (IS_WAITING(w) && WI[w].called)
#define IS_AWAITING(w) (WI[w].exists && WI[w].state == awaiting_legacy_outcome)
#define IS_TOLD(w) (IS_AWAITING(w) && EV[w].outcome)
#define IS_SETTLED(w) (!IS_AWAITING(w))
#define IS_WITHOUT_WORK(w) (IS_DUE_EVENT(w) && !EV[w].is_owned_by_item && !WI[w].exists)
#define IS_UNFINISHED(w) (WI[w].exists && !IS_ENDED_ITEM(w) && !IS_HELD(w))
#ifdef NO_RECONCILED_FIRST
#define IS_OBSTRUCTED false
#else
#define IS_OBSTRUCTED (fence == open || fence == sealed || ANY(IS_AWAITING))
#endif

/* What an operator asks for, in any order; then only what puts in order what stands half done. */
proctype Operator(bit is_tidy) {
    byte w, rounds, turns, items, number;
    bit is_last, is_there;

again:
    atomic {
        w = 0; turns = 0; items = 0; is_last = 0; number = 0; is_there = 0;
        if
        :: rounds < ROUNDS -> rounds++; goto forward
        :: rounds < ROUNDS -> rounds++; goto rollback
        :: rounds < ROUNDS && fence == sealed -> rounds++; goto reconcile
        :: rounds < ROUNDS && lease == SEIZED -> rounds++; goto abandon
        :: rounds < ROUNDS && (fence == open || fence == sealed) -> rounds++; goto abandon_rollback
        :: is_tidy && lease == SEIZED -> goto abandon
        :: is_tidy && fence == open -> goto abandon_rollback
        :: is_tidy && fence == open && !ANY(IS_RUNNING) && !ANY(IS_CALLED) -> goto rollback
        :: is_tidy && fence == sealed && (ANY(IS_TOLD) || ALL(IS_SETTLED)) -> goto reconcile
        :: is_tidy && IS_ALL_OVER && IS_IN_ORDER -> goto over
        :: !is_tidy && rounds == ROUNDS -> goto over
        fi
    };

forward:
    /* Refused before anything is changed, or done already. */
    atomic { if :: IS_FORWARD || IS_OBSTRUCTED -> goto again :: else fi };
stop_claims:
    atomic { STATEMENT(LOCK_PACK); LOCK(pack_lock) };
    atomic { STATEMENT(NEWEST_CUTOVER_RECEIPT); if :: IS_FORWARD -> release(); goto again :: else fi };
    lock_rows(EXECUTOR);
    atomic { STATEMENT(SEIZE_SCHEDULER_LEASES); LOCK(lease_lock); FAILPOINT(inbound_forward.stopping) };
    atomic {
#ifndef NO_EXECUTOR_EVICTION
        evict(EXECUTOR);
#endif
        lease = SEIZED; is_stopped = 1;
        check(); release();
        FAILPOINT(inbound_forward.stopped)
    };
materialize:
    w = 0;
    do
    :: w < WORKS ->
        atomic { STATEMENT(LOCK_PACK); LOCK(pack_lock) };
        atomic { STATEMENT(LOCK_EVENTS_WITHOUT_WORK); LOCK(event_lock[w]); FAILPOINT(inbound_forward.materializing) };
        atomic {
            STATEMENT(LIST_WORK_OF_EVENTS);
            if
            :: IS_DUE_EVENT(w) && !EV[w].claim && !EV[w].is_owned_by_item && !IS_COVERED(w) ->
                STATEMENT(INSERT_WORK_ITEMS);
                /* What is reconciled is never opened again, and the unique key lets one in. */
                assert(!WI[w].exists);
                WI[w].exists = 1; WI[w].state = pending
            :: else
            fi;
            check(); release(); w++;
            FAILPOINT(inbound_forward.materialized)
        }
    :: else -> w = 0; break
    od;
drain:
    /* Waits, takes back what is lost, or gives up in time and leaves the claims stopped. */
    atomic {
        if
        :: ANY(IS_CLAIMED) ->
            w = (EV[0].claim -> 0 : WORKS - 1); number = EV[w].claim;
            LOCK(event_lock[w]);
            if
            :: EV[w].claim == number -> STATEMENT(TAKE_EVENT_BACK); EV[w].status = failed; EV[w].claim = 0; EV[w].tries++
            :: else
            fi;
            check(); release()
        :: !IS_DRAINING
        :: true -> goto again
        fi;
        FAILPOINT(inbound_forward.taken_back)
    };
    lock_pack_of_cutover();
    atomic {
        STATEMENT(NEWEST_CUTOVER_RECEIPT);
        if :: IS_DONE(IS_FORWARD) -> release(); goto again :: else fi
    };
    lock_rows(WORKER);
    atomic {
        STATEMENT(COUNT_UNCLOSED_ROLLBACKS); STATEMENT(COUNT_EVENTS_WITHOUT_WORK); STATEMENT(COUNT_EVENT_CLAIMS);
        if
        :: IS_OBSTRUCTED -> release(); goto again
        /* Not yet: it goes on for as long as it has time. */
        :: !IS_OBSTRUCTED && (lease != SEIZED || IS_UNCOVERED || IS_DRAINING) ->
            release();
            if
            :: turns == 0 && (lease != SEIZED || IS_UNCOVERED) -> turns = 1; goto stop_claims
            :: turns == 0 && lease == SEIZED && !IS_UNCOVERED -> turns = 1; goto materialize
            :: else -> goto again
            fi
        :: else
        fi;
        FAILPOINT(inbound_forward.proved)
    };
    atomic { STATEMENT(GIVE_SCHEDULER_LEASES_BACK); LOCK(lease_lock); FAILPOINT(inbound_forward.written) };
    atomic {
        STATEMENT(INSERT_CUTOVER_RECEIPT);
        assert(!IS_FORWARD);
#ifndef NO_EXECUTOR_EVICTION
        evict(WORKER);
#endif
        generation++; lease = FREE; is_stopped = 0;
        check(); release();
        FAILPOINT(inbound_forward.committed)
    };
    goto again;

rollback:
    /* The survey: what is refused anyway stops no claim. */
    atomic {
        if :: !IS_FORWARD || ANY(IS_CALLED) -> goto again :: else fi;
        FAILPOINT(rollback.before_open)
    };
    lock_pack_of_cutover();
    atomic { STATEMENT(NEWEST_CUTOVER_RECEIPT); if :: !IS_FORWARD -> release(); goto again :: else fi };
    lock_rows(WORKER);
    FAILPOINT(rollback.before_open_commit);
    atomic {
        STATEMENT(FIND_UNCLOSED_FENCE);
        if
        :: fence == sealed -> release(); goto again
        :: fence == open
        :: else -> STATEMENT(INSERT_ROLLBACK_FENCE); fence = open; fence_number++
        fi;
        evict(WORKER);
        number = fence_number;
        check(); release();
        FAILPOINT(rollback.after_open)
    };
    /* Once more, now that nothing is claimed: what was begun has to be finished. */
    atomic {
        STATEMENT(LIST_RETRIES_TO_FENCE); STATEMENT(LIST_PENDING_TO_FENCE); STATEMENT(LIST_ATTEMPTS_TO_PROVE);
        if :: !IS_SURVEYED -> goto again :: else fi
    };
hand_over:
    w = 0; items = 0; is_there = 0;
    lock_pack_of_cutover();
    atomic {
        STATEMENT(NEWEST_CUTOVER_RECEIPT); STATEMENT(FIND_UNCLOSED_FENCE);
        if :: IS_DONE(!IS_FORWARD || fence != open || fence_number != number) -> release(); goto again :: else fi
    };
    lock_rows(WORKER);
    atomic {
        STATEMENT(COUNT_IN_HAND);
        if :: IS_IN_HAND -> release(); goto again :: else fi
    };
    atomic {
        /* One item a transaction; retries come first. */
        STATEMENT(LIST_RETRIES_TO_FENCE); STATEMENT(LIST_PENDING_TO_FENCE); STATEMENT(LIST_ATTEMPTS_TO_PROVE);
        for (k : 0 .. WORKS - 1) {
            if
            :: IS_WAITING(k) ->
                if
                :: !is_there || (WI[k].state == retry && WI[w].state != retry) -> w = k
                :: is_there && WI[k].state == WI[w].state -> if :: w = k :: skip fi
                :: else
                fi;
                items++; is_there = 1
            :: else
            fi
        };
        k = 0;
        is_last = (items <= 1);
        if
        :: is_there && WAS_CALLED(w) -> release(); goto again
        :: is_there && !WAS_CALLED(w) && (!IS_DUE_EVENT(w) || EV[w].claim) -> release(); goto again
        :: else
        fi
#ifdef NO_LAST
        ; is_last = 1
#endif
    };
    if
    :: is_last ->
        atomic {
            STATEMENT(RETURN_EVENTS);
            LOCK(event_lock[0]);
#if WORKS > 1
            LOCK(event_lock[1]);
#endif
            FAILPOINT(rollback.after_events)
        }
    :: else
    fi;
    if
    :: is_there ->
        atomic {
            STATEMENT(FENCE_WORK_ITEMS);
            LOCK(item_lock[w]);
            /* Nobody else moves what waits now. */
            assert(IS_WAITING(w))
        }
    :: else
    fi;
    FAILPOINT(rollback.after_fence);
    atomic {
        if
        :: is_last && (IS_OUTSIDE(0, w) || (WORKS > 1 && IS_OUTSIDE(WORKS - 1, w))) -> STATEMENT(FIND_LEFT_OUTSIDE); release(); goto again
        :: else
        fi;
        FAILPOINT(rollback.before_receipt);
        FAILPOINT(rollback.after_receipt);
        FAILPOINT(rollback.before_commit)
    };
    atomic {
        if
        :: is_there -> MOVE_WAITING(w); WI[w].fence = number
        :: else
        fi;
        if
        :: is_last ->
            STATEMENT(INSERT_CUTOVER_RECEIPT); STATEMENT(SEAL_ROLLBACK_FENCE);
            assert(IS_FORWARD && fence == open);
            for (k : 0 .. WORKS - 1) {
                /* Nothing is left outside of the set. */
                assert(!IS_UNFINISHED(k));
                if
                :: IS_HELD(k) ->
                    sealed_set = sealed_set | (1 << k);
#ifndef NO_RETURNED
                    EV[k].is_owned_by_item = 0
#endif
                :: else -> sealed_set = sealed_set & ~(1 << k)
                fi
            };
            k = 0;
            generation++; fence = sealed
        :: else
        fi;
        evict(WORKER);
        check(); release();
        FAILPOINT(rollback.after_chunk)
    };
    if :: is_last -> FAILPOINT(rollback.after_commit); goto again :: else -> goto hand_over fi;

reconcile:
    atomic { if :: fence != sealed -> goto again :: else -> number = fence_number fi };
    w = 0;
    do
    :: w < WORKS ->
        if
        :: EV[w].outcome == number && IS_AWAITING(w) && !(WI[w].fence != number) ->
            atomic { STATEMENT(LIST_UNPROJECTED_OUTCOMES); LOCK(item_lock[w]); FAILPOINT(projector.after_items); FAILPOINT(projector.before_commit) };
            atomic {
                STATEMENT(RECONCILE_WORK_ITEM); STATEMENT(MARK_OUTCOME_PROJECTED);
                if
                :: WI[w].state == awaiting_legacy_outcome && WI[w].fence == number ->
                    MOVE(w, reconcile, awaiting_legacy_outcome, reconciled_legacy_terminal)
                :: else
                fi;
                check(); release();
                FAILPOINT(projector.after_page)
            }
        :: else
        fi;
        w++
    :: else -> w = 0; break
    od;
    do
    :: w < WORKS ->
        /* One statement sees the Event and its receipt as of one moment. */
        atomic { STATEMENT(LIST_AWAITING_ITEMS); is_there = IS_ANSWERED(w) };
        if
        :: IS_AWAITING(w) && WI[w].fence == number && !is_there && IS_ENDED_LATER(w) ->
            atomic {
                STATEMENT(LOSE_LEGACY_OUTCOME);
                LOCK(item_lock[w]);
                if
                :: WI[w].state == awaiting_legacy_outcome && WI[w].fence == number ->
                    MOVE(w, lose_outcome, awaiting_legacy_outcome, legacy_outcome_unknown)
                :: else
                fi;
                check(); release()
            }
        :: else
        fi;
        w++
    :: else -> w = 0; break
    od;
    FAILPOINT(projector.before_close);
    lock_pack_of_cutover();
    atomic { STATEMENT(FIND_UNCONFIRMED_ITEM); FAILPOINT(projector.before_close_commit) };
    atomic {
        if
        :: fence == sealed && fence_number == number && ALL(IS_SETTLED) -> STATEMENT(CLOSE_ROLLBACK_FENCE); fence = closed
        :: else
        fi;
        check(); release();
        goto again
    };

abandon:
    /* let_claim_again: executors have to be started anew. */
    atomic { STATEMENT(LOCK_PACK); LOCK(pack_lock) };
    atomic {
        STATEMENT(GIVE_SCHEDULER_LEASES_BACK);
        if
        :: !IS_FORWARD && lease == SEIZED -> LOCK(lease_lock); lease = FREE; is_stopped = 0; check()
        :: else
        fi;
        release(); goto again
    };

abandon_rollback:
    /* What was handed over is given back first, one item a transaction. */
    lock_pack_of_cutover();
    atomic {
        STATEMENT(FIND_UNCLOSED_FENCE);
        if :: IS_SEALED_OR_OVER -> release(); goto again :: else fi;
        STATEMENT(LIST_FENCED_ITEMS);
        if
        :: IS_TO_GIVE_BACK -> w = (IS_HELD(0) -> 0 : WORKS - 1)
        :: else -> STATEMENT(CLOSE_ROLLBACK_FENCE); fence = closed; check(); release(); goto again
        fi
    };
    atomic {
        LOCK(item_lock[w]);
        if
        :: WI[w].attempt == 0 -> STATEMENT(UNFENCE_WORK_ITEMS); MOVE(w, unfence, awaiting_legacy_outcome, pending)
        :: else -> STATEMENT(UNFENCE_RETRIES); MOVE(w, unfence_retry, awaiting_legacy_outcome, retry)
        fi;
        WI[w].fence = 0;
        check(); release();
        FAILPOINT(rollback.after_given_back);
        goto abandon_rollback
    };
crashed:
    /* Whoever asks next. */
    atomic { release(); goto again };
over:
    skip
}

#if WORKS > 1
/* One more input. */
proctype Admission() {
    atomic { STATEMENT(LOCK_PACK); LOCK(pack_lock) };
    atomic {
        STATEMENT(INSERT_EVENTS); STATEMENT(INSERT_WORK_ITEMS);
        EV[1].exists = 1; EV[1].status = pending; WI[1].exists = 1; WI[1].state = pending;
        check(); release()
    }
}
#endif

init {
    atomic {
        fence = none;
        /* Before the first cutover, with a mirror or without, or after it. */
        if :: generation = 0 :: generation = 1 fi;
#ifdef START
        if :: generation == START :: else -> goto over fi;
#endif
        EV[0].exists = 1; EV[0].status = pending;
        if
        :: generation == 0
        :: WI[0].exists = 1; WI[0].state = pending
        fi;
#if WORKS > 1
        if
        :: EV[1].exists = 1; EV[1].status = pending; WI[1].exists = 1; WI[1].state = pending
        :: run Admission()
        fi;
#endif
        run Worker();
        run Executor();
        for (n : 1 .. OPERATORS) { run Operator(n == 1) };
        n = 0
    };
over:
    skip
}
