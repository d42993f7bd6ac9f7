/*
 * server_flight.h - how many requests each server of a list has in flight
 */
#ifndef MOETOP_CORE_SERVER_FLIGHT_H
#define MOETOP_CORE_SERVER_FLIGHT_H

#include "model/servers.h"

/*
 * Ask each server that listens, once and all at a time, for its metrics: those
 * that run and those that wait, as the engine counts them.  Unknown where it
 * does not answer within half a second, wants a key, or is in a network
 * that may not be entered.  Blocking.
 */
void server_flight_read(struct servers *s);

#endif
