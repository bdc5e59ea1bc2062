/*
 * The replay protocol, for spin: every interleaving of replayers, a claimant, the Event executor, an admission, a
 * pack's rotation, a route sweep and an admission fence, with a crash between any two steps.
 *
 * One dead original and what becomes of it. A transaction holds its row locks until it ends and shows its writes at
 * its commit, as READ COMMITTED does; a plain read sees what is committed; an UPDATE waits for its row and then looks
 * at the newest version. A crash drops the locks and the writes. Ids sort by time: where they do not, an end and a
 * replay may wait for each other, and the database undoes one of them (docs/locking.md).
 *
 * STATEMENT, FAILPOINT and MOVE name what stands in integration/: the SQL constants, the failpoints, the transition
 * table of states.py. tests/batteries/test_models.py holds every one of those names against the program, and the order
 * of the Replayer's against real replays.
 *
 * A guard is taken away by defining NO_<guard>; batteries/r7_models.py lists them, and each must then be missed.
 */

mtype = { pending, processing, retry, succeeded, skipped, dead, processed };
mtype = { per_event, source_projection };
mtype = { owned, mirror, event_only, ambiguous };

#ifndef REPLAYERS
#define REPLAYERS 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef COMPANY
#define COMPANY 2
#endif
#ifndef CLAIMS
#define CLAIMS 2
#endif
#define MOST_ATTEMPTS 2
#define MOST_LOOKS 2

/* Rows. Event 0 is the original's, 1 the admission's, 2 and 3 the replayers' children; WorkItem 4 is the second
   candidate of an ambiguous original. */
#define EVENTS 4
#define ITEMS 5
#define NONE 7

typedef Event {
    bit exists; bit pack; byte ordinal;
    mtype status; bit is_owned_by_item; bit claimed; bit replayed; bit is_child
}
typedef Item {
    bit exists; bit pack; byte event; byte first; byte last;
    mtype state; byte attempt; bit leased; bit key; bit replayed; bit is_child
}

Event EV[EVENTS];
Item WI[ITEMS];
bit current;                 /* the active incarnation */
bit live[2];                /* the incarnation's route is live */
mtype class_of[2];          /* its execution class */
byte next[2];               /* NextLaneOrdinal */
bit fenced;                 /* an admission fence is armed */
bit is_late;                /* the admission's generation, WorkItem 1, is younger than a replayer's child */

byte namespace_lock, route_lock, pack_lock[2], event_lock[EVENTS], item_lock[ITEMS];

/* What the run is about, chosen once. */
mtype kind, class;
bit precut;                 /* an older service replayed the Event before the cut, and made a child */
byte crashes;
hidden byte k, n, m;

#define STATEMENT(name) printf(#name); printf(" ")
#define MOVE(w, name, source, target) assert(WI[w].state == source); WI[w].state = target; printf(#name); printf(" ")
#define FAILPOINT(name) \
    if \
    :: crashes < CRASHES -> crashes++; goto crashed \
    :: true \
    fi
/* Used inside `atomic`, which a lock that is not free interrupts. Locks of different rows commute, so that taking
   those of one statement together leaves nothing out. */
#define LOCK(row) (row == 0 || row == _pid) -> row = _pid
#define IS_OVER(w) (WI[w].state == dead || WI[w].state == succeeded || WI[w].state == skipped)
#define IS_PROJECTION(w) (class_of[WI[w].pack] == source_projection)
#define IS_ENDED(e) (EV[e].status == dead || EV[e].status == processed || EV[e].status == skipped)
/* Neither executor has begun with an Event. */
#ifdef NO_CLAIM_OF_EVENT
#define IS_FREE(e) true
#else
#define IS_FREE(e) \
    (!EV[e].is_owned_by_item && EV[e].status == pending && !EV[e].claimed && !EV[e].replayed)
#endif
#define HAS(mask, i) ((mask >> (i)) & 1)

/* Ends a transaction, committed or not. */
inline release() {
    d_step {
        if :: namespace_lock == _pid -> namespace_lock = 0 :: else fi;
        if :: route_lock == _pid -> route_lock = 0 :: else fi;
        if :: pack_lock[0] == _pid -> pack_lock[0] = 0 :: else fi;
        if :: pack_lock[1] == _pid -> pack_lock[1] = 0 :: else fi;
        for (k : 0 .. EVENTS - 1) { if :: event_lock[k] == _pid -> event_lock[k] = 0 :: else fi };
        for (k : 0 .. ITEMS - 1) { if :: item_lock[k] == _pid -> item_lock[k] = 0 :: else fi };
        k = 0
    }
}

/* What must hold of committed rows, asked after every commit. */
inline check() {
    d_step {
        /* One original has at most one child, whoever made it (3, 4). */
        n = precut; m = 0;
        for (k : 0 .. EVENTS - 1) { if :: EV[k].exists && EV[k].is_child -> n++ :: else fi };
        for (k : 0 .. ITEMS - 1) { if :: WI[k].exists && WI[k].is_child -> m++ :: else fi };
        assert(n <= 1);
        /* The reservation, the child's Event and the child's WorkItem are there together (5). */
        assert(m == n - precut);
        if
        :: n - precut == 1 -> assert(WI[0].replayed || (EV[0].replayed && !precut) || (WI[0].exists == 0 && EV[0].replayed) ||
                                     (EV[1].exists && EV[1].replayed))
        :: else -> assert(!WI[0].replayed && (precut || !EV[0].replayed))
        fi;
        /* Whatever was replayed has ended, keeps no key and no lease, and can never be claimed again (2, 6). */
        if
        :: WI[0].exists && n - precut == 1 -> assert(WI[0].state == dead && !WI[0].key && !WI[0].leased)
        :: else
        fi;
        /* A replay that the WorkItem owns leaves the Event alone (8). */
        assert(!(WI[0].exists && WI[0].attempt > 0 && WI[0].replayed && EV[WI[0].event].replayed && !precut));
        /* Two candidates are never replayed (9). */
        assert(!(kind == ambiguous && n > 0));
        /* Nobody executes what another executes. */
        for (k : 0 .. ITEMS - 1) { assert(!(WI[k].exists && WI[k].leased && EV[WI[k].event].claimed)) };
        /* A projection's key is one generation's, and none waits without one ahead of it. */
        for (n : 0 .. 1) {
            m = 0;
            for (k : 0 .. ITEMS - 1) { if :: WI[k].exists && WI[k].key && WI[k].pack == n -> m++ :: else fi };
            assert(m <= 1);
            for (k : 0 .. ITEMS - 1) {
                assert(!(WI[k].exists && IS_PROJECTION(k) && WI[k].pack == n && !IS_OVER(k) && !WI[k].key && m == 0))
            }
        };
        /* No ordinal is given twice. */
        for (k : 0 .. EVENTS - 2) {
            for (n : k + 1 .. EVENTS - 1) {
                assert(!(EV[k].exists && EV[n].exists && EV[k].pack == EV[n].pack && EV[k].ordinal == EV[n].ordinal))
            }
        };
        k = 0; n = 0; m = 0
    }
}

/* The generations of the source that are to run, and the Events of it that no generation executes. */
inline read_scope(own, generations, unheld) {
    generations = 0; unheld = 0;
    if
    :: class == source_projection ->
        for (k : 0 .. ITEMS - 1) {
            if :: WI[k].exists && WI[k].event != own && !IS_OVER(k) -> generations = generations | (1 << k) :: else fi
        };
        for (k : 0 .. EVENTS - 1) {
            if
            :: EV[k].exists && k != own && !EV[k].is_owned_by_item && !IS_ENDED(k) ->
                m = 0;
                for (n : 0 .. ITEMS - 1) {
                    if
                    :: WI[n].exists && (WI[n].event == k || (WI[n].pack == EV[k].pack && WI[n].first <= EV[k].ordinal &&
                                                           EV[k].ordinal <= WI[n].last)) -> m = 1
                    :: else
                    fi
                };
                if :: m == 0 -> unheld = unheld | (1 << k) :: else fi
            :: else
            fi
        }
    :: else
    fi;
    k = 0; n = 0; m = 0
}

/* The contract's rules in their order; `refused` says that one stands against it. */
inline decide() {
    d_step {
        read_scope(event, scope_items, scope_events);
        m = 0;
        for (k : 0 .. ITEMS - 1) { if :: WI[k].exists && WI[k].event == event -> m++ :: else fi };
        is_item_owned = m > 0 && WI[0].attempt > 0;
#ifdef NO_GATE
        is_item_owned = false;
#endif
        refused = false;
#ifndef NO_AMBIGUITY
        refused = refused || m > 1;
#endif
        if
        :: is_item_owned ->
            refused = refused || WI[0].state != dead || WI[0].replayed;
#ifndef NO_EVENT_FENCE
            refused = refused || EV[event].replayed;
#endif
        :: else ->
            refused = refused || EV[event].status != dead || EV[event].replayed;
            refused = refused || (m > 0 && (WI[0].replayed || WI[0].state == processing || WI[0].state == succeeded ||
                                            WI[0].state == skipped))
        fi;
        for (k : 0 .. EVENTS - 1) { if :: EV[k].exists && EV[k].is_child -> refused = true :: else fi };
#ifndef NO_PACK_STATUS
        refused = refused || target != current;
#endif
#ifndef NO_FENCE
        refused = refused || fenced;
#endif
#ifndef NO_ROUTE
        refused = refused || !live[target];
#endif
#ifndef NO_CLASS
        refused = refused || class_of[target] != class;
#endif
#ifndef NO_SCOPE
        refused = refused || scope_items != 0;
#endif
#ifndef NO_SUCCESSOR
        refused = refused || scope_events != 0;
#endif
        k = 0; m = 0
    }
}

inline reserve() {
    if
    :: is_item_owned -> WI[0].replayed = 1
    :: else ->
        EV[event].replayed = 1;
        if
        :: WI[0].exists ->
#ifndef NO_MIRROR_END
            if
            :: WI[0].state == pending -> MOVE(0, terminalize_mirror, pending, dead)
            :: WI[0].state == retry -> MOVE(0, terminalize_mirror, retry, dead)
            :: else
            fi;
            WI[0].key = 0; WI[0].leased = 0;
#endif
            WI[0].replayed = 1
        :: else
        fi
    fi
#ifdef NO_EVENT_UNTOUCHED
    ; EV[event].replayed = 1
#endif
}

inline insert_event() {
    EV[2 + me].exists = 1; EV[2 + me].pack = target; EV[2 + me].ordinal = ordinal; EV[2 + me].status = pending;
    EV[2 + me].is_child = 1; next[target] = ordinal + 1
}

inline insert_item() {
    WI[2 + me].exists = 1; WI[2 + me].pack = target; WI[2 + me].event = 2 + me; WI[2 + me].state = pending;
    WI[2 + me].first = ordinal; WI[2 + me].last = ordinal; WI[2 + me].key = (class == source_projection);
    WI[2 + me].is_child = 1
}

#ifdef NO_TRANSACTION
#define NOW(write) d_step { write }
#define AT_COMMIT(write) skip
#else
#define NOW(write) skip
#define AT_COMMIT(write) write
#endif

/* By their ids, which sort by time. */
inline lock_items() {
    do
    :: i < ITEMS -> if :: HAS(items, i) && (i != 1 || !is_late) -> LOCK(item_lock[i]) :: else fi; i++
    :: else -> i = 0; break
    od;
    if :: is_late && HAS(items, 1) -> LOCK(item_lock[1]) :: else fi
}

proctype Replayer(byte me) {
    byte event, ordinal, scope_items, scope_events, items, i, looks;
    bit target, origin;
    bool refused, is_item_owned;

look:
    /* Plain reads say which rows to lock. */
    atomic {
        STATEMENT(FIND_EVENT_OF_WORK_ITEM);
        event = (WI[0].exists -> WI[0].event : 0);
        target = current; origin = EV[event].pack;
#ifdef NO_REREAD
        decide();
#endif
        looks++
    };
#ifdef NO_EVENT_AFTER_PACK
    atomic { LOCK(event_lock[event]) };
#endif
#ifndef NO_PACK_LOCK
    atomic {
        STATEMENT(LOCK_PACKS);
        if :: origin == 0 || target == 0 -> LOCK(pack_lock[0]) :: else fi;
        if :: origin == 1 || target == 1 -> LOCK(pack_lock[1]) :: else fi;
        ordinal = next[target]
    };
#else
    ordinal = next[target];
#endif
    FAILPOINT(replay.packs_locked);
    d_step {
        STATEMENT(LIST_NONTERMINAL_OF_SCOPE);
        STATEMENT(LIST_EVENT_ONLY_OF_SCOPE);
        read_scope(event, scope_items, scope_events);
        items = scope_items;
        for (k : 0 .. ITEMS - 1) {
            if :: WI[k].exists && WI[k].event == event -> items = items | (1 << k) :: else fi
        };
        scope_events = scope_events | (1 << event);
        k = 0; i = 0
    };
#ifdef NO_ITEM_AFTER_EVENT
    atomic {
        lock_items()
    };
#endif
    atomic {
        STATEMENT(LOCK_EVENTS);
        do
        :: i < EVENTS -> if :: HAS(scope_events, i) -> LOCK(event_lock[i]) :: else fi; i++
        :: else -> i = 0; break
        od
    };
    atomic {
        if
        :: class == source_projection -> STATEMENT(LOCK_REPLAYED_SCOPE)
        :: else -> STATEMENT(LOCK_REPLAYED_ITEMS)
        fi;
        lock_items()
    };
    FAILPOINT(replay.rows_locked);
    atomic {
        if
        :: WI[0].exists && WI[0].event != event ->
            /* The generation moved to another Event between the read and the lock. */
            release();
            if :: looks < MOST_LOOKS -> goto look :: else -> goto over fi
        :: else
        fi;
#ifndef NO_REREAD
        decide();
#endif
        if :: refused -> release(); goto over :: else fi
    };
    FAILPOINT(replay.decided);
    atomic {
        if
        :: is_item_owned -> STATEMENT(RESERVE_REPLAY)
        :: else ->
            STATEMENT(RESERVE_EVENT_REPLAY);
            if
            :: WI[0].exists && WI[0].state == dead -> STATEMENT(RESERVE_DEAD_MIRROR)
            :: WI[0].exists && WI[0].state != dead -> STATEMENT(END_MIRROR)
            :: else
            fi
        fi;
#ifndef NO_RESERVATION
        /* The compare-and-swap. */
        if
        :: is_item_owned && (WI[0].state != dead || WI[0].replayed) -> release(); goto over
        :: !is_item_owned && (EV[event].status != dead || EV[event].replayed) -> release(); goto over
        :: else
        fi;
#endif
        NOW(reserve())
    };
    FAILPOINT(replay.reserved);
    atomic {
        STATEMENT(ADVANCE_LANE_ORDINAL);
        LOCK(pack_lock[target]);
        if :: next[target] != ordinal -> release(); goto over :: else fi;
#ifndef NO_PACK_STATUS
        if :: target != current -> release(); goto over :: else fi;
#endif
        STATEMENT(INSERT_REPLAY_EVENT);
        NOW(insert_event())
    };
    FAILPOINT(replay.event_inserted);
    atomic {
        if
        :: class == per_event -> STATEMENT(INSERT_REPLAY_WORK_ITEM)
        :: else -> STATEMENT(INSERT_REPLAY_GENERATION)
        fi;
        NOW(insert_item())
    };
    FAILPOINT(replay.work_item_inserted);
    FAILPOINT(replay.recorded);
    atomic {
#ifndef NO_UNIQUE_KEYS
        /* UX_Event_Idempotency, UX_WorkItem_ReplayOf, UX_WorkItem_ProjectionActive. */
        m = 0;
        for (k : 0 .. EVENTS - 1) { if :: EV[k].exists && EV[k].is_child && k != 2 + me -> m = 1 :: else fi };
        for (k : 0 .. ITEMS - 1) {
            if
            :: class == source_projection && WI[k].exists && WI[k].key && WI[k].pack == target && k != 2 + me &&
               !(k == 0 && !is_item_owned) -> m = 1
            :: else
            fi
        };
        k = 0;
        if :: m == 1 -> m = 0; release(); goto over :: else fi;
#endif
        AT_COMMIT(reserve(); insert_event(); insert_item());
        check();
        /* What the child relies on still holds as it becomes visible. */
        assert(target == current);
        assert(live[target] && class_of[target] == class);
        assert(!fenced);
        d_step { read_scope(2 + me, items, scope_events) };
        assert(items == 0 && scope_events == 0);
        release()
    };
    FAILPOINT(replay.after_commit);
    goto over;
crashed:
    release();
    check();
over:
    skip
}

/* The newest generation of an incarnation's projection, by a plain read. */
inline find_newest(incarnation) {
    d_step {
        successor = NONE;
        if
        :: class_of[incarnation] == source_projection ->
            for (k : 0 .. ITEMS - 1) {
                if
                :: WI[k].exists && WI[k].pack == incarnation && (successor == NONE || WI[k].last > WI[successor].last) ->
                    successor = k
                :: else
                fi
            }
        :: else
        fi;
        k = 0
    }
}

inline hand_over(ended) {
#ifndef NO_HANDOFF
    if
    :: successor != NONE && successor != ended && WI[successor].state == pending && WI[successor].attempt == 0 &&
       !WI[successor].key -> STATEMENT(ACTIVATE_SUCCESSOR); WI[successor].key = 1
    :: else
    fi;
#endif
    successor = 0
}

inline find_mirror() {
    d_step {
        w = NONE;
        for (k : 0 .. ITEMS - 1) { if :: WI[k].exists && WI[k].event == event -> w = k :: else fi };
        k = 0
    }
}

/* A worker: claims what it finds and ends it; what it holds when it dies is taken back. */
proctype Claimant() {
    byte w, event, i, successor, claims;
    bit is_first;

again:
    atomic {
        if
        :: claims < CLAIMS && !crashes -> claims++
        :: claims < CLAIMS && crashes -> claims = CLAIMS
        :: else -> goto over
        fi;
        /* LIST_CLAIM_CANDIDATES: a plain read. */
        if
        :: WI[0].exists && (WI[0].state == pending || WI[0].state == retry) -> w = 0
        :: WI[1].exists && (WI[1].state == pending || WI[1].state == retry) -> w = 1
        :: WI[2].exists && WI[2].state == pending -> w = 2
        :: true -> goto over
        fi;
        is_first = (WI[w].attempt == 0); event = WI[w].event
    };
    if
    :: is_first ->
        atomic { STATEMENT(LOCK_EVENTS_FOR_CLAIM); LOCK(event_lock[event]) };
        atomic {
            STATEMENT(FIRST_CLAIM);
            LOCK(item_lock[w]);
            if
            :: WI[w].event == event && WI[w].state == pending && WI[w].attempt == 0 && !WI[w].leased &&
               (!IS_PROJECTION(w) || WI[w].key) && IS_FREE(event) -> MOVE(w, claim, pending, processing); EV[event].is_owned_by_item = 1
            :: else -> release(); goto again
            fi;
            WI[w].attempt++; WI[w].leased = 1;
            check();
            release()
        }
    :: else ->
        atomic {
            STATEMENT(LATER_CLAIM);
            LOCK(item_lock[w]);
            if
            :: WI[w].state == retry && !WI[w].leased && WI[w].attempt < MOST_ATTEMPTS -> MOVE(w, claim, retry, processing)
            :: else -> release(); goto again
            fi;
            WI[w].attempt++; WI[w].leased = 1;
            check();
            release()
        }
    fi;
    FAILPOINT(claim.after_commit);
    atomic {
        LOCK(item_lock[w]);
        /* Token and epoch are its own: nobody took the lease meanwhile. */
        if
        :: STATEMENT(COMPLETE_WORK_ITEM); i = 0
        :: STATEMENT(BURY_WORK_ITEM); i = 1
        :: WI[w].attempt < MOST_ATTEMPTS ->
            STATEMENT(RETRY_WORK_ITEM); MOVE(w, retry, processing, retry); WI[w].leased = 0; check(); release();
            goto again
        fi;
        goto end
    };
crashed:
    /* The reaper. */
    atomic {
        LOCK(item_lock[w]);
        if
        :: WI[w].attempt < MOST_ATTEMPTS ->
            STATEMENT(REAP_WORK_ITEM); MOVE(w, reap, processing, retry); WI[w].leased = 0; check(); release();
            goto again
        :: else -> STATEMENT(REAP_EXHAUSTED_WORK_ITEM); i = 2
        fi
    };
end:
    /* The end is this transaction's own write; what follows is the hand-over in a later statement. */
#ifdef NO_LATER_STATEMENT
    /* Looking before the row is locked. */
    atomic { release(); find_newest(WI[w].pack) };
    atomic { LOCK(item_lock[w]) };
#else
    atomic { STATEMENT(FIND_NEWEST_OF_PROJECTION); find_newest(WI[w].pack) };
#endif
    atomic {
        if
        :: successor != NONE && successor != w -> LOCK(item_lock[successor])
        :: else
        fi;
        if
        :: i == 0 -> MOVE(w, complete, processing, succeeded)
        :: i == 1 -> MOVE(w, bury, processing, dead)
        :: i == 2 -> MOVE(w, reap_exhausted, processing, dead)
        fi;
        WI[w].leased = 0; WI[w].key = 0; i = 0;
        hand_over(w);
        check();
        release();
        goto again
    };
over:
    skip
}

/* The Event executor of earlier builds, and the convergence of what mirrors its Event. */
proctype Executor() {
    byte event, w, i, successor;
    mtype status;

    atomic {
        if
        :: EV[0].status == pending && !EV[0].is_owned_by_item -> event = 0
        :: EV[1].exists && EV[1].status == pending && !EV[1].is_owned_by_item -> event = 1
        :: true -> goto over
        fi
    };
    atomic { STATEMENT(LOCK_EVENT_OF_EXECUTOR); LOCK(event_lock[event]); find_mirror() };
    atomic {
        STATEMENT(LOCK_RANGED_MIRRORS);
        if :: w != NONE -> LOCK(item_lock[w]) :: else fi;
        STATEMENT(CLAIM_EVENT);
        if
        :: EV[event].is_owned_by_item || EV[event].status != pending || EV[event].claimed || EV[event].replayed ||
           (w != NONE && (WI[w].attempt > 0 || WI[w].leased || WI[w].state != pending ||
                             (IS_PROJECTION(w) && !WI[w].key))) -> release(); goto over
        :: else -> EV[event].status = processing; EV[event].claimed = 1; check(); release()
        fi
    };
    FAILPOINT(legacy_end.before);
    atomic {
        LOCK(event_lock[event]);
        STATEMENT(END_EVENT);
        if :: status = processed :: status = dead fi;
        find_mirror()
    };
    atomic {
        if :: w != NONE -> LOCK(item_lock[w]) :: else fi;
        if
        :: w != NONE && WI[w].key -> STATEMENT(FIND_NEWEST_OF_PROJECTION); find_newest(WI[w].pack)
        :: else -> successor = NONE
        fi
    };
    atomic {
        if
        :: successor != NONE && successor != w -> LOCK(item_lock[successor])
        :: else
        fi;
        EV[event].status = status; EV[event].claimed = 0;
        if
        :: w != NONE && WI[w].event == event && WI[w].attempt == 0 && WI[w].state == pending ->
            if
            :: status == dead -> STATEMENT(CONVERGE_DEAD); MOVE(w, converge_dead, pending, dead)
            :: else -> STATEMENT(CONVERGE_PROCESSED); MOVE(w, converge_processed, pending, succeeded)
            fi;
            WI[w].key = 0;
            hand_over(w)
        :: else
        fi;
        check();
        release()
    };
crashed:
    /* Its claim stays; nobody takes it back here. */
over:
    skip
}

/* One input of the source: into a waiting generation, behind a claimed one, or into a new one. An old writer stores
   the Event alone. */
mtype = { alone, extended, queued, activated };

proctype Admission() {
    byte newest, holder, selected, ordinal;
    bit pack;
    mtype place;

    atomic { newest = NONE; holder = NONE; selected = NONE; pack = current; place = activated };
    atomic {
        STATEMENT(LOCK_PACK);
        LOCK(pack_lock[pack]);
        if :: pack != current || fenced || !live[pack] -> goto over :: else fi;
        ordinal = next[pack];
        if
        :: class_of[pack] == per_event -> goto store
        :: class_of[pack] == source_projection -> place = alone; goto store
        :: class_of[pack] == source_projection
        fi
    };
    /* Two plain reads of a key: the generation that has it, and the newest. */
    d_step {
        STATEMENT(LIST_ACTIVE_GENERATIONS);
        STATEMENT(FIND_NEWEST_OF_PROJECTION);
        for (k : 0 .. ITEMS - 1) {
            if :: WI[k].exists && WI[k].pack == pack && WI[k].key -> holder = k :: else fi;
            if
            :: WI[k].exists && WI[k].pack == pack && (newest == NONE || WI[k].last > WI[newest].last) -> newest = k
            :: else
            fi
        };
        if :: newest != NONE && IS_OVER(newest) -> newest = NONE :: else fi;
        if :: newest != NONE && WI[newest].state == pending && WI[newest].attempt == 0 -> selected = WI[newest].event :: else fi;
        k = 0
    };
#ifndef NO_ADMISSION_LOCKS
    atomic {
        if
        :: selected != NONE -> STATEMENT(LOCK_SELECTED_EVENTS); LOCK(event_lock[selected])
        :: else
        fi
    };
    atomic {
        STATEMENT(LOCK_GENERATIONS);
        if :: holder != NONE && holder < newest -> LOCK(item_lock[holder]) :: else fi;
        if :: newest != NONE -> LOCK(item_lock[newest]) :: else fi;
        if :: holder != NONE && newest != NONE && holder > newest -> LOCK(item_lock[holder]) :: else fi
    };
#endif
    atomic {
        if :: holder != NONE && IS_OVER(holder) -> holder = NONE :: else fi;
        if
        :: newest == NONE && holder == NONE -> place = activated
        :: newest != NONE && IS_OVER(newest) && holder == NONE -> place = activated
        :: newest != NONE && !IS_OVER(newest) && selected != NONE && WI[newest].state == pending &&
           WI[newest].attempt == 0 && !WI[newest].leased && WI[newest].event == selected &&
           !EV[selected].is_owned_by_item && EV[selected].status == pending && !EV[selected].claimed &&
           !EV[selected].replayed -> place = extended
        :: else ->
            /* Held: its receipt stays where it is. */
            if :: newest != NONE && !IS_OVER(newest) && !WI[newest].key -> goto over :: else -> place = queued fi
        fi
    };
store:
    FAILPOINT(materialize.before_commit);
    atomic {
        STATEMENT(INSERT_EVENTS);
        EV[1].exists = 1; EV[1].pack = pack; EV[1].ordinal = ordinal; EV[1].status = pending;
        if
        :: place == alone
        :: place == extended ->
            STATEMENT(EXTEND_GENERATION); STATEMENT(SKIP_SUPERSEDED_EVENTS);
            WI[newest].event = 1; WI[newest].last = ordinal; EV[selected].status = skipped;
            if :: holder == NONE -> WI[newest].key = 1 :: else fi
        :: place == queued || place == activated ->
            if :: class_of[pack] == per_event -> STATEMENT(INSERT_WORK_ITEMS) :: else -> STATEMENT(INSERT_GENERATIONS) fi;
            is_late = WI[2].exists || WI[3].exists;
            WI[1].exists = 1; WI[1].pack = pack; WI[1].event = 1; WI[1].state = pending; WI[1].first = ordinal;
            WI[1].last = ordinal; WI[1].key = (class_of[pack] == source_projection && place == activated)
        fi;
        STATEMENT(ADVANCE_LANE_ORDINAL);
        next[pack] = ordinal + 1;
        check();
        assert(pack == current && !fenced && live[pack])
    };
crashed:
over:
    release()
}

/* Another incarnation becomes the active one. */
proctype Rotation() {
    atomic { STATEMENT(LOCK_NAMESPACE); LOCK(namespace_lock) };
    atomic { STATEMENT(LOCK_PACKS); LOCK(pack_lock[0]); LOCK(pack_lock[1]) };
    atomic {
        STATEMENT(MARK_PACK_RETIRED);
        STATEMENT(MARK_PACK_ACTIVE);
        LOCK(route_lock);
        STATEMENT(SWEEP_ROUTES); STATEMENT(MARK_ROUTES_LIVE);
        current = 1; live[0] = 0; live[1] = 1;
        check();
        release()
    }
}

/* The active incarnation's route goes. */
proctype RouteSweep() {
    bit pack;
    pack = current;
    atomic { STATEMENT(LOCK_PACK); LOCK(pack_lock[pack]) };
    atomic { STATEMENT(SWEEP_ROUTES); LOCK(route_lock); live[pack] = 0; release() }
}

/* A cutover arms its admission fence: the active pack's row is the barrier behind which nobody has read "no fence". */
proctype Fence() {
    bit pack;
    atomic { STATEMENT(LOCK_NAMESPACE); LOCK(namespace_lock); pack = current };
#ifndef NO_BARRIER
    atomic { STATEMENT(LOCK_PACKS); LOCK(pack_lock[pack]) };
#endif
    atomic { fenced = 1; release() }
}

#ifdef LIVENESS
/* The operators' list, asked again and again. */
bit seen;
#define OF_ITEM (WI[0].exists && WI[0].attempt > 0)
#define ORIGINAL WI[0].event
#define IS_DEAD ((OF_ITEM && WI[0].state == dead && !WI[0].replayed) || \
    (!OF_ITEM && EV[ORIGINAL].status == dead && !EV[ORIGINAL].replayed))

active proctype Lister() {
end:
    do
    :: atomic {
        STATEMENT(LIST_DEAD_OLDER);
        if
#ifndef NO_LIST_OF_ITEMS
        :: OF_ITEM && WI[0].state == dead && !WI[0].replayed -> seen = 1
        :: !OF_ITEM && EV[ORIGINAL].status == dead && !EV[ORIGINAL].replayed -> seen = 1
#else
        :: EV[ORIGINAL].status == dead && !EV[ORIGINAL].replayed -> seen = 1
#endif
        :: else
        fi
    }
    od
}

ltl no_dead_item_unseen { [] (IS_DEAD -> <> (seen || !IS_DEAD)) }
#endif

init {
    atomic {
        if :: kind = owned :: kind = mirror :: kind = event_only :: kind = ambiguous fi;
#ifdef KIND
        if :: kind == KIND :: else -> goto over fi;
#endif
        if :: class = per_event :: class = source_projection fi;
#ifdef CLASS
        if :: class == CLASS :: else -> goto over fi;
#endif
        if :: class_of[1] = per_event :: class_of[1] = source_projection fi;
        class_of[0] = class; live[0] = 1;
        EV[0].exists = 1; next[0] = 1;
        WI[0].exists = (kind != event_only);
        if
        :: kind == owned ->
            /* Whatever the Event says. */
            if :: EV[0].status = pending :: EV[0].status = processed :: EV[0].status = dead :: EV[0].status = dead; precut = 1 fi;
            if :: WI[0].state = retry :: WI[0].state = dead fi;
            EV[0].is_owned_by_item = 1; EV[0].replayed = precut; WI[0].attempt = 1
        :: kind == ambiguous ->
            EV[0].status = dead; EV[0].is_owned_by_item = 1;
            WI[0].state = dead; WI[0].attempt = 1;
            WI[4].exists = 1; WI[4].state = dead
        :: else ->
            if :: EV[0].status = pending :: EV[0].status = dead fi;
            if :: kind == mirror -> WI[0].state = pending :: else fi
        fi;
        WI[0].key = (WI[0].exists && class == source_projection && WI[0].state != dead);
        for (k : 0 .. REPLAYERS - 1) { run Replayer(k) };
        k = 0;
        /* Who else is about: every company of at most so many. */
        do
        :: n < COMPANY && m < 1 -> m = 1; n++; run Claimant()
        :: n < COMPANY && m < 2 -> m = 2; n++; run Executor()
#ifndef LIVENESS
        :: n < COMPANY && m < 3 -> m = 3; n++; run Admission()
        :: n < COMPANY && m < 4 -> m = 4; n++; run Rotation()
        :: n < COMPANY && m < 5 -> m = 5; n++; run RouteSweep()
        :: n < COMPANY && m < 6 -> m = 6; n++; run Fence()
#endif
        :: break
        od;
        n = 0; m = 0
    };
over:
    skip
}
